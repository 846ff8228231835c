import java.util.List;
import jflex.chars.Interval;
import jflex.core.unicode.UnicodeProperties;

/**
 * Prints what generate_unicode.py can't ask of Python: character sets of a given Unicode version (JFlex carries the data
 * of many) and this Java's Character.toLowerCase and Character.UnicodeScript. One set or pair a line, hexadecimal.
 *
 * <p>Arguments: a Unicode version, then property names as JFlex spells them.
 */
public class Properties {
  public static void main(String[] args) throws Exception {
    UnicodeProperties data = new UnicodeProperties(args[0]);
    for (String name : List.of(args).subList(1, args.length)) {
      StringBuilder line = new StringBuilder("set ").append(name);
      for (Interval range : data.getIntCharSet(name).getIntervals()) {
        line.append(String.format(" %x-%x", range.start, range.end));
      }
      System.out.println(line);
    }
    for (int c = 0; c <= 0x10FFFF; c++) {
      if (Character.toLowerCase(c) != c) System.out.printf("lower %x %x%n", c, Character.toLowerCase(c));
      Character.UnicodeScript script = Character.UnicodeScript.of(c);
      if (script == Character.UnicodeScript.HAN) System.out.printf("han %x%n", c);
      if (script == Character.UnicodeScript.HIRAGANA) System.out.printf("hiragana %x%n", c);
    }
    System.out.println("java " + System.getProperty("java.version"));
  }
}
