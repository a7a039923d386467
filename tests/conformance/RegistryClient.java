import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;

/** Registers a schema with the client for Java, and finds it by its id, subject and content. */
public class RegistryClient {
  public static void main(String[] arguments) throws Exception {
    var client = new CachedSchemaRegistryClient(arguments[0], 10);
    var schema = new AvroSchema("{\"type\":\"record\",\"name\":\"Order\",\"fields\":[]}");
    int id = client.register("java-value", schema);
    var latest = client.getLatestSchemaMetadata("java-value");
    boolean isFound = client.getSchemaById(id).canonicalString().equals(schema.canonicalString());
    System.exit(isFound && latest.getId() == id && client.getVersion("java-value", schema) == 1 ? 0 : 1);
  }
}
