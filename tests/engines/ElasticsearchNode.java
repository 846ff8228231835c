import java.nio.file.Path;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;

/** Starts a node without Elasticsearch's own launcher, which is not on Maven Central. Arguments: config folder, home. */
public class ElasticsearchNode {
    public static void main(String[] arguments) throws Exception {
        Path config = Path.of(arguments[0]);
        LogConfigurator.configureESLogging();
        Settings settings = Settings.builder()
            .loadFromPath(config.resolve("elasticsearch.yml"))
            .put("path.home", arguments[1])
            .build();
        LogConfigurator.setNodeName(settings.get("node.name"));
        Node node = new Node(new Environment(settings, config));
        node.start();
        Thread.currentThread().join();
    }
}
