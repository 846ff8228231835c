import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.analysis.CharArraySet;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;

/**
 * Analyzes texts with Lucene's StandardAnalyzer, no stop words, tokens of at most 255 UTF-16 units.
 *
 * <p>Standard input: per text its length in bytes (int) and its UTF-16BE bytes. Standard output: per text the number of
 * tokens, then per token start, end (ints, UTF-16 units), length in bytes (int), UTF-16BE bytes of the term.
 */
public class LuceneTokens {
  record Found(int start, int end, char[] term) {}

  public static void main(String[] args) throws Exception {
    StandardAnalyzer analyzer = new StandardAnalyzer(CharArraySet.EMPTY_SET);
    analyzer.setMaxTokenLength(255);
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
    DataOutputStream out = new DataOutputStream(new java.io.BufferedOutputStream(System.out));
    while (true) {
      char[] text;
      try {
        text = new char[in.readInt() / 2];
      } catch (EOFException end) {
        break;
      }
      for (int i = 0; i < text.length; i++) text[i] = in.readChar(); // no decoder: it would replace lone surrogates
      List<Found> tokens = new ArrayList<>();
      try (TokenStream stream = analyzer.tokenStream("text", new String(text))) {
        CharTermAttribute term = stream.getAttribute(CharTermAttribute.class);
        OffsetAttribute offset = stream.getAttribute(OffsetAttribute.class);
        stream.reset();
        while (stream.incrementToken()) {
          tokens.add(new Found(offset.startOffset(), offset.endOffset(), term.toString().toCharArray()));
        }
        stream.end();
      }
      out.writeInt(tokens.size());
      for (Found token : tokens) {
        out.writeInt(token.start());
        out.writeInt(token.end());
        out.writeInt(2 * token.term().length);
        for (char unit : token.term()) out.writeChar(unit);
      }
    }
    out.flush();
  }
}
