// Makes the calls of a plan through grpc-java on netty and reports what came of them; compat_tests/peers.py says how.

import com.google.common.util.concurrent.ListenableFuture;
import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

public final class Calls {
    private static final ScheduledExecutorService TIMERS = Executors.newSingleThreadScheduledExecutor();

    /** Takes and gives the bytes of a message. */
    private enum AsIs implements MethodDescriptor.Marshaller<byte[]> {
        INSTANCE;

        @Override
        public InputStream stream(byte[] message) {
            return new ByteArrayInputStream(message);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException problem) {
                throw new IllegalStateException(problem);
            }
        }
    }

    private static final class Outcome {
        final Map<Integer, Integer> codes = new TreeMap<>();
        final List<String> replies = new ArrayList<>();
        String message = "";

        synchronized void succeeded(byte[] reply) {
            codes.merge(0, 1, Integer::sum);
            replies.add(Base64.getEncoder().encodeToString(reply));
        }

        synchronized void failed(Status status) {
            codes.merge(status.getCode().value(), 1, Integer::sum);
            message = String.valueOf(status.getDescription());
        }
    }

    private static int number(JsonObject step, String name) {
        return step.has(name) ? step.get(name).getAsInt() : 0;
    }

    private static Metadata metadataOf(JsonObject step) {
        Metadata metadata = new Metadata();
        if (step.has("metadata")) {
            for (Map.Entry<String, JsonElement> entry : step.getAsJsonObject("metadata").entrySet()) {
                String name = entry.getKey();
                String value = entry.getValue().getAsString();
                if (name.endsWith("-bin")) {
                    metadata.put(
                            Metadata.Key.of(name, Metadata.BINARY_BYTE_MARSHALLER), Base64.getDecoder().decode(value));
                } else {
                    metadata.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
                }
            }
        }
        return metadata;
    }

    private static void call(
            Channel channel, MethodDescriptor<byte[], byte[]> method, JsonObject step, byte[] request, Outcome outcome)
            throws InterruptedException {
        CallOptions options = CallOptions.DEFAULT;
        if (number(step, "timeout_ms") > 0) {
            options = options.withDeadlineAfter(number(step, "timeout_ms"), TimeUnit.MILLISECONDS);
        }
        if (step.has("gzip")) {
            options = options.withCompression("gzip");
        }
        ListenableFuture<byte[]> future = ClientCalls.futureUnaryCall(channel.newCall(method, options), request);
        if (number(step, "cancel_ms") > 0) {
            TIMERS.schedule(() -> future.cancel(true), number(step, "cancel_ms"), TimeUnit.MILLISECONDS);
        }
        try {
            outcome.succeeded(future.get());
        } catch (CancellationException problem) {
            outcome.failed(Status.CANCELLED);
        } catch (ExecutionException problem) {
            outcome.failed(Status.fromThrowable(problem.getCause()));
        }
    }

    private static Outcome run(ManagedChannel connection, JsonObject step) throws Exception {
        byte[] request = Files.readAllBytes(Path.of(step.get("request").getAsString()));
        MethodDescriptor<byte[], byte[]> method =
                MethodDescriptor.<byte[], byte[]>newBuilder(AsIs.INSTANCE, AsIs.INSTANCE)
                        .setType(MethodDescriptor.MethodType.UNARY)
                        .setFullMethodName(step.get("path").getAsString().substring(1))
                        .build();
        Channel channel =
                ClientInterceptors.intercept(
                        connection, MetadataUtils.newAttachHeadersInterceptor(metadataOf(step)));
        Outcome outcome = new Outcome();
        ExecutorService workers = Executors.newFixedThreadPool(number(step, "in_flight"));
        List<Future<?>> turns = new ArrayList<>();
        for (int n = 0; n < number(step, "count"); n++) {
            turns.add(
                    workers.submit(
                            () -> {
                                call(channel, method, step, request, outcome);
                                return null;
                            }));
        }
        for (Future<?> turn : turns) {
            turn.get();
        }
        workers.shutdown();
        return outcome;
    }

    public static void main(String[] arguments) throws Exception {
        JsonArray plan = JsonParser.parseString(Files.readString(Path.of(arguments[1]))).getAsJsonArray();
        ManagedChannel connection = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
        JsonObject report = new JsonObject();
        Gson gson = new Gson();
        for (JsonElement step : plan) {
            Outcome outcome = run(connection, step.getAsJsonObject());
            report.add(step.getAsJsonObject().get("name").getAsString(), gson.toJsonTree(outcome));
        }
        Files.writeString(Path.of(arguments[2]), gson.toJson(report));
        TIMERS.shutdown();
        connection.shutdown().awaitTermination(5, TimeUnit.SECONDS);
    }

    private Calls() {}
}
