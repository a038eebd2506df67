// The published Java client as a user uses it. It prints "ok" or "not ok" for each story, and with "inventory" the public methods that
// there are, as class, name and descriptor; which of them ran is counted by an agent.

import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.SandboxManager;
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig;
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.OutputMessage;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec;
import com.alibaba.opensandbox.sandbox.domain.services.Commands;
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem;
import com.alibaba.opensandbox.sandbox.domain.services.Metrics;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import kotlin.Unit;

public class Conformance {
    static final String IMAGE = System.getenv().getOrDefault("OSB_IMAGE", "host");
    static final Map<String, String> LIMITS = Map.of("cpu", "1", "memory", "256Mi");
    static int failed = 0;

    interface Story {
        void run() throws Exception;
    }

    static void story(String name, Story s) {
        try {
            s.run();
            System.out.println("ok " + name);
        } catch (Throwable e) {
            failed++;
            System.out.println("not ok " + name);
            e.printStackTrace(System.out);
        }
    }

    static void check(boolean what, String text) {
        if (!what) {
            throw new AssertionError(text);
        }
    }

    static void same(Object got, Object wanted) {
        check(wanted.equals(got), "got " + got + ", not " + wanted);
    }

    static void until(String what, BooleanSupplier fn) throws InterruptedException {
        long end = System.nanoTime() + 120_000_000_000L;
        while (!fn.getAsBoolean()) {
            check(System.nanoTime() < end, what);
            Thread.sleep(50);
        }
    }

    static int refused(Story s) throws Exception {
        try {
            s.run();
        } catch (SandboxApiException e) {
            return e.getStatusCode();
        }
        throw new AssertionError("it was not refused");
    }

    static ConnectionConfig.Builder connection() {
        return ConnectionConfig.builder().domain(System.getenv("OSB_DOMAIN")).protocol("http").apiKey(System.getenv("OSB_KEY"))
            .requestTimeout(Duration.ofSeconds(120)).debug(false).connectionPool(new okhttp3.ConnectionPool());
    }

    static Sandbox.Builder sandbox() {
        return Sandbox.builder().image(IMAGE).resource(LIMITS).connectionConfig(connection().build()).timeout(Duration.ofMinutes(10))
            .readyTimeout(Duration.ofSeconds(120)).healthCheckPollingInterval(Duration.ofMillis(100));
    }

    static String text(List<OutputMessage> messages) {
        return messages.stream().map(m -> m.getText().stripTrailing()).collect(Collectors.joining("\n"));
    }

    static void lifecycle(Sandbox s, SandboxManager manager) throws Exception {
        same(s.getInfo().getStatus().getState(), "Running");
        same(s.getInfo().getMetadata().get("suite"), "java");
        check(s.getInfo().getExpiresAt().isAfter(s.getInfo().getCreatedAt()), "expiry");
        check(s.isHealthy(), "healthy");
        s.checkReady(Duration.ofSeconds(60), Duration.ofMillis(100));
        check(!s.getEndpoint(44772).getEndpoint().isEmpty(), "endpoint");
        check(s.getMetrics().getCpuCount() > 0 && s.metrics().getMetrics(s.getId()).getMemoryTotalInMiB() > 0, "metrics");
        var before = s.getInfo().getExpiresAt();
        s.renew(Duration.ofMinutes(30));
        check(s.getInfo().getExpiresAt().isAfter(before), "renewed");
        manager.renewSandbox(s.getId(), Duration.ofMinutes(60));
        var page = manager.listSandboxInfos(SandboxFilter.builder().states("Running").metadata(Map.of("suite", "java")).page(1).pageSize(1).build());
        same(page.getSandboxInfos().get(0).getId(), s.getId());
        same(manager.getSandboxInfo(s.getId()).getId(), s.getId());
        check(s.httpClientProvider() != null && manager.httpClientProvider() != null, "client");
        s.pause();
        until("Paused", () -> s.getInfo().getStatus().getState().equals("Paused"));
        s.resume();
        until("Running", () -> s.getInfo().getStatus().getState().equals("Running"));
        manager.pauseSandbox(s.getId());
        until("Paused", () -> s.getInfo().getStatus().getState().equals("Paused"));
        manager.resumeSandbox(s.getId());
        until("Running", () -> s.getInfo().getStatus().getState().equals("Running"));
        try (Sandbox other = Sandbox.connector().sandboxId(s.getId()).connectionConfig(connection().build()).healthCheck(x -> true).connect()) {
            same(text(other.commands().run("echo again").getLogs().getStdout()), "again");
        }
    }

    static void commands(Sandbox s) throws Exception {
        Execution got = s.commands().run("echo out; echo err >&2; echo $GREETING; exit 3");
        same(text(got.getLogs().getStdout()), "out\nhello");
        same(text(got.getLogs().getStderr()), "err");
        same(got.getError().getValue(), "3");
        List<String> seen = new ArrayList<>();
        var handlers = ExecutionHandlers.builder().onInit(e -> seen.add("init")).onStdout(m -> seen.add(m.getText().strip()))
            .onStderr(m -> seen.add("stderr")).onExecutionComplete(e -> seen.add("complete")).onError(e -> seen.add("error")).build();
        s.commands().run(RunCommandRequest.builder().command("pwd").workingDirectory("/tmp").handlers(handlers).build());
        same(seen, List.of("init", "/tmp", "complete"));
        String id = s.commands().run(RunCommandRequest.builder().command("echo $$ > /tmp/pid; exec sleep 1000").background(true).build()).getId();
        s.commands().interrupt(id);
        until("its end", () -> text(s.commands().run("kill -0 $(cat /tmp/pid) 2>/dev/null || echo gone").getLogs().getStdout()).equals("gone"));
    }

    static void files(Sandbox s) throws Exception {
        Filesystem f = s.files();
        byte[] bytes = new byte[256];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) i;
        }
        f.createDirectories(List.of(WriteEntry.builder().path("/tmp/d/e").mode(755).build()));
        f.write(List.of(WriteEntry.builder().path("/tmp/d/a.txt").data("alpha\nbeta\n").mode(644).build(),
            WriteEntry.builder().path("/tmp/d/e/b.bin").data(bytes).build()));
        f.writeFile(WriteEntry.builder().path("/tmp/d/one").data("one").encoding("UTF-8").build());
        f.writeFile("/tmp/d/two", "two");
        same(f.readFile("/tmp/d/a.txt"), "alpha\nbeta\n");
        same(f.readFile("/tmp/d/two", "UTF-8", "bytes=0-1"), "tw");
        check(Arrays.equals(f.readByteArray("/tmp/d/e/b.bin"), bytes), "bytes");
        check(Arrays.equals(f.readByteArray("/tmp/d/e/b.bin", "bytes=10-19"), Arrays.copyOfRange(bytes, 10, 20)), "range");
        try (var in = f.readStream("/tmp/d/e/b.bin")) {
            check(Arrays.equals(in.readAllBytes(), bytes), "stream");
        }
        try (var in = f.readStream("/tmp/d/one", "bytes=1-2")) {
            same(new String(in.readAllBytes(), StandardCharsets.UTF_8), "ne");
        }
        f.setPermissions(List.of(SetPermissionEntry.builder().path("/tmp/d/a.txt").mode(600).owner("root").group("root").build()));
        var info = f.readFileInfo(List.of("/tmp/d/a.txt")).get("/tmp/d/a.txt");
        check(info.getMode() == 600 && info.getSize() == 11, "info");
        f.replaceContents(List.of(ContentReplaceEntry.builder().path("/tmp/d/a.txt").oldContent("beta").newContent("gamma").build()));
        same(f.readFile("/tmp/d/a.txt"), "alpha\ngamma\n");
        f.moveFiles(List.of(MoveEntry.builder().src("/tmp/d/a.txt").dest("/tmp/d/c.txt").build()));
        same(f.search(SearchEntry.builder().path("/tmp/d").pattern("c*.txt").build()).get(0).getPath(), "/tmp/d/c.txt");
        f.deleteFiles(List.of("/tmp/d/c.txt"));
        f.deleteDirectories(List.of("/tmp/d"));
        same(refused(() -> f.readFile("/tmp/d/c.txt")), 404);
    }

    /** Ways to say the same in a builder, and how errors look. */
    static void builders(SandboxManager manager) throws Exception {
        var own = connection().headers(Map.of("X-One", "1")).headers(h -> { h.put("X-Two", "2"); return Unit.INSTANCE; }).addHeader("X-Three", "3").build();
        Sandbox s = Sandbox.builder().imageSpec(SandboxImageSpec.builder().image(IMAGE).build()).entrypoint("sleep", "600")
            .entrypoint(List.of("sleep", "601")).resource(r -> { r.put("cpu", "1"); return Unit.INSTANCE; }).resource(LIMITS)
            .env(Map.of("A", "1")).env(e -> { e.put("B", "2"); return Unit.INSTANCE; }).metadata(Map.of("m", "1"))
            .metadata(m -> { m.put("n", "2"); return Unit.INSTANCE; }).healthCheck(x -> x.getInfo().getStatus().getState().equals("Running")).connectionConfig(own)
            .readyTimeout(Duration.ofSeconds(120)).build();
        same(text(s.commands().run("echo $A$B").getLogs().getStdout()), "12");
        same(s.getInfo().getEntrypoint(), List.of("sleep", "601"));
        same(s.getInfo().getMetadata().get("n"), "2");
        manager.killSandbox(s.getId());
        same(refused(() -> manager.getSandboxInfo(s.getId())), 404);
        s.close();
        same(refused(() -> sandbox().resource(Map.of("cpu", "plenty")).build()), 400);
        try (SandboxManager wrong = SandboxManager.builder().connectionConfig(connection().apiKey("wrong").build()).build()) {
            same(refused(() -> wrong.listSandboxInfos(SandboxFilter.builder().build())), 401);
        }
    }

    static void inventory() {
        for (Class<?> c : List.of(Sandbox.class, Sandbox.Builder.class, Sandbox.Connector.class, SandboxManager.class, SandboxManager.Builder.class,
            ConnectionConfig.Builder.class, Filesystem.class, Commands.class, Metrics.class)) {
            for (Method m : c.getDeclaredMethods()) {
                if (Modifier.isPublic(m.getModifiers()) && !m.isSynthetic() && !m.getName().contains("$")) {
                    System.out.println("method " + c.getName() + " " + m.getName() + " "
                        + MethodType.methodType(m.getReturnType(), m.getParameterTypes()).toMethodDescriptorString());
                }
            }
        }
    }

    public static void main(String[] args) {
        inventory();
        SandboxManager manager = SandboxManager.builder().connectionConfig(connection().build()).build();
        Sandbox s = sandbox().env("GREETING", "hello").metadata("suite", "java").build();
        story("lifecycle", () -> lifecycle(s, manager));
        story("commands", () -> commands(s));
        story("files", () -> files(s));
        story("builders and errors", () -> builders(manager));
        story("the end", () -> {
            s.kill();
            same(refused(() -> manager.getSandboxInfo(s.getId())), 404);
            s.close();
            manager.close();
        });
        System.exit(failed == 0 ? 0 : 1);
    }
}
