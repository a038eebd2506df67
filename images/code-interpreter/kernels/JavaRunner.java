import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.LinkedBlockingQueue;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.ExpressionSnippet;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.UnresolvedReferenceException;
import jdk.jshell.VarSnippet;

/**
 * Runs Java for java_kernel.py: the JDK's own JShell, spoken to in lines.
 *
 * In: the code in base64, or "!" for an interrupt; the end of input ends the program.
 * Out: a letter and words in base64. o: output, e: error output, v: the value of the last expression, x: an
 * exception (name, text, lines of its trace), d: the run is over. What the code itself prints cannot get in between:
 * it runs in another VM, whose output JShell collects.
 */
public final class JavaRunner {
    private static final String[] IMPORTS = {
        "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*", "java.util.concurrent.*",
        "java.util.function.*", "java.util.regex.*", "java.util.stream.*"};
    private static final PrintStream WIRE = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
    private static final LinkedBlockingQueue<String> RUNS = new LinkedBlockingQueue<>();
    private static volatile boolean interrupted, ended;
    private static volatile JShell shell;

    /** A run that has ended early: its error. */
    private static final class Failure extends Exception {
        final String name;
        final List<String> trace;

        Failure(String name, String text, List<String> trace) {
            super(text);
            this.name = name;
            this.trace = trace;
        }
    }

    private static void send(String kind, List<String> words) {
        StringBuilder line = new StringBuilder(kind);
        for (String word : words) {
            line.append(' ').append(Base64.getEncoder().encodeToString(word.getBytes(StandardCharsets.UTF_8)));
        }
        synchronized (WIRE) {
            WIRE.println(line);
            WIRE.flush();
        }
    }

    /** Bytes as they come; who reads them puts characters together. */
    private static final class Output extends OutputStream {
        private final String kind;

        Output(String kind) {
            this.kind = kind;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] data, int from, int n) {
            String line = kind + ' ' + Base64.getEncoder().encodeToString(java.util.Arrays.copyOfRange(data, from, from + n));
            synchronized (WIRE) {
                WIRE.println(line);
                WIRE.flush();
            }
        }
    }

    private static PrintStream stream(String kind) {
        return new PrintStream(new Output(kind), true, StandardCharsets.UTF_8);
    }

    private static void listen() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII))) {
            for (String line; (line = in.readLine()) != null;) {
                if (line.equals("!")) {
                    interrupted = true;
                    shell.stop();
                } else {
                    interrupted = false; // what came before this line was for another run
                    RUNS.add(line);
                }
            }
        } catch (IOException e) {
            System.err.println(e);
        }
        Runtime.getRuntime().halt(0);
    }

    private static Failure rejected(Snippet snippet) {
        List<String> lines = new ArrayList<>();
        String first = null;
        for (Diag d : (Iterable<Diag>) shell.diagnostics(snippet)::iterator) {
            if (d.isError()) {
                String text = d.getMessage(Locale.ROOT);
                int line = (int) snippet.source().substring(0, (int) Math.max(0, d.getPosition())).lines().count();
                first = first == null ? text : first;
                lines.add("line " + Math.max(1, line) + ": " + text);
            }
        }
        lines.add(snippet.source().strip());
        return new Failure("CompilationException", first == null ? "the code was rejected" : first, lines);
    }

    private static void addTrace(List<String> lines, Throwable e, String head) {
        lines.add(head);
        for (StackTraceElement frame : e.getStackTrace()) {
            lines.add("\tat " + frame);
        }
        if (e.getCause() instanceof EvalException cause) {
            addTrace(lines, cause, "Caused by: " + cause.getExceptionClassName() + ": " + cause.getMessage());
        }
    }

    private static Failure thrown(JShellException e) {
        List<String> lines = new ArrayList<>();
        String text = e.getMessage();
        if (e instanceof EvalException eval) {
            text = eval.getExceptionClassName() + (e.getMessage() == null ? "" : ": " + e.getMessage());
        } else if (e instanceof UnresolvedReferenceException unresolved) {
            shell.unresolvedDependencies(unresolved.getSnippet()).forEach(d -> lines.add("not there yet: " + d));
            text = "uses what is not there yet: " + unresolved.getSnippet().source().strip();
        }
        addTrace(lines, e, text);
        return new Failure(e.getClass().getSimpleName(), text, lines);
    }

    private static Failure stopped() {
        return new Failure("InterruptedException", "the run was interrupted", List.of());
    }

    /** What an expression is worth, as its own text; null where there is nothing to show. */
    private static String shown(SnippetEvent event) {
        Snippet s = event.snippet();
        String type = null;
        if (s instanceof ExpressionSnippet e) {
            type = e.typeName();
        } else if (s instanceof VarSnippet v && s.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND) {
            type = v.typeName();
        }
        String value = event.value();
        if (type == null || value == null) {
            return null;
        }
        boolean quoted = (type.equals("String") || type.equals("char") || type.equals("Character")) && value.length() >= 2;
        return quoted ? value.substring(1, value.length() - 1) : value;
    }

    private static String evaluate(String source) throws Failure {
        String value = null;
        List<SnippetEvent> events = shell.eval(source);
        if (ended) {
            Runtime.getRuntime().halt(1); // System.exit(): the state is lost
        }
        for (SnippetEvent event : events) {
            if (event.causeSnippet() != null) {
                continue;
            }
            if (interrupted) {
                throw stopped();
            }
            if (event.status() == Snippet.Status.REJECTED) {
                throw rejected(event.snippet());
            }
            if (event.exception() != null) {
                throw thrown(event.exception());
            }
            value = shown(event);
        }
        return value;
    }

    private static void run(String code) throws Failure {
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        String rest = code, value = null;
        while (!rest.isBlank()) {
            SourceCodeAnalysis.CompletionInfo info = analysis.analyzeCompletion(rest);
            if (info.completeness() == SourceCodeAnalysis.Completeness.DEFINITELY_INCOMPLETE) {
                throw new Failure("IncompleteSourceException", "the code is not complete", List.of(rest.strip()));
            }
            if (interrupted) {
                throw stopped();
            }
            String source = info.source() == null ? rest : info.source();
            if (!source.isBlank()) {
                value = evaluate(source);
            }
            rest = info.source() == null ? "" : info.remaining();
        }
        if (value != null) {
            send("v", List.of(value));
        }
    }

    public static void main(String[] args) throws InterruptedException {
        shell = JShell.builder().out(stream("o")).err(stream("e"))
            .remoteVMOptions("-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8").build();
        shell.onShutdown(s -> ended = true);
        for (String name : IMPORTS) {
            shell.eval("import " + name + ";");
        }
        Thread listener = new Thread(JavaRunner::listen, "listener");
        listener.setDaemon(true);
        listener.start();
        send("d", List.of());
        for (;;) {
            String line = RUNS.take();
            try {
                run(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8));
            } catch (Failure f) {
                List<String> words = new ArrayList<>(List.of(f.name, f.getMessage() == null ? "" : f.getMessage()));
                words.addAll(f.trace);
                send("x", words);
            }
            send("d", List.of());
        }
    }
}
