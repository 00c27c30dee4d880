// Receives through google-cloud-pubsub and tells what came of it; compat_tests/subscribers.py says how.

import com.google.api.core.ApiService;
import com.google.api.gax.batching.FlowControlSettings;
import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.GrpcTransportChannel;
import com.google.api.gax.rpc.FixedTransportChannelProvider;
import com.google.api.gax.rpc.TransportChannelProvider;
import com.google.cloud.pubsub.v1.AckReplyConsumer;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.gson.Gson;
import com.google.pubsub.v1.ProjectSubscriptionName;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public final class Receive {
    private static final long WORK_MS = 1;

    private final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    private final CountDownLatch left;
    private final String what;
    private final List<String> received = new ArrayList<>();
    private int working = 0;
    private int peak = 0;

    private Receive(int count, String what) {
        this.left = new CountDownLatch(count);
        this.what = what;
    }

    private static void tell(Map<String, Object> event) {
        System.out.println(new Gson().toJson(event));
    }

    private void hold() {
        tell(Map.of("event", "holding"));
        try {
            lines.readLine();
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    private void take(PubsubMessage message, AckReplyConsumer reply) {
        String data = message.getData().toStringUtf8();
        boolean isNew;
        boolean first;
        synchronized (this) {
            isNew = !received.contains(data);
            received.add(data);
            first = received.size() == 1;
            working++;
            peak = Math.max(peak, working);
        }
        if (first && what.equals("hold")) {
            hold();
        }
        try {
            Thread.sleep(WORK_MS);
        } catch (InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
        synchronized (this) {
            working--;
        }
        if (isNew && what.equals("nack")) {
            reply.nack();
        } else {
            reply.ack();
            left.countDown();
        }
    }

    private void run(ProjectSubscriptionName name, long most) throws Exception {
        ManagedChannel channel =
                ManagedChannelBuilder.forTarget(System.getenv("PUBSUB_EMULATOR_HOST")).usePlaintext().build();
        TransportChannelProvider transport =
                FixedTransportChannelProvider.create(GrpcTransportChannel.create(channel));
        Subscriber subscriber =
                Subscriber.newBuilder(name, this::take)
                        .setChannelProvider(transport)
                        .setCredentialsProvider(NoCredentialsProvider.create())
                        .setFlowControlSettings(
                                FlowControlSettings.newBuilder()
                                        .setMaxOutstandingElementCount(most)
                                        .setMaxOutstandingRequestBytes(100L * 1024 * 1024)
                                        .build())
                        .build();
        subscriber.addListener(
                new ApiService.Listener() {
                    @Override
                    public void failed(ApiService.State from, Throwable failure) {
                        failure.printStackTrace();
                        System.exit(1);
                    }
                },
                MoreExecutors.directExecutor());
        subscriber.startAsync().awaitRunning();
        left.await();
        subscriber.stopAsync().awaitTerminated();
        SubscriptionAdminSettings settings =
                SubscriptionAdminSettings.newBuilder()
                        .setTransportChannelProvider(transport)
                        .setCredentialsProvider(NoCredentialsProvider.create())
                        .build();
        try (SubscriptionAdminClient client = SubscriptionAdminClient.create(settings)) {
            client.getSubscription(name);
            tell(Map.of("event", "closed", "received", received, "peak", peak));
            while (lines.readLine() != null) {}
        }
        channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }

    public static void main(String[] arguments) throws Exception {
        ProjectSubscriptionName name = ProjectSubscriptionName.of(arguments[0], arguments[1]);
        new Receive(Integer.parseInt(arguments[2]), arguments[3]).run(name, Long.parseLong(arguments[4]));
    }
}
