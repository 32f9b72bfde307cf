import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Asks each URL, and says what came. */
public class Client {
    public static void main(String[] urls) {
        HttpClient.Builder builder = HttpClient.newBuilder();
        if (System.getProperty("https.proxyHost") != null) {
            builder.proxy(java.net.ProxySelector.getDefault());
        }
        HttpClient client = builder.build();
        for (String url : urls) {
            try {
                var answer = client.send(HttpRequest.newBuilder(URI.create(url)).build(), BodyHandlers.ofString());
                System.out.println(answer.statusCode() + " " + answer.body().trim());
            } catch (Exception error) {
                System.out.println("failed " + error);
            }
        }
    }
}
