package bbflow.pegasus;

import edu.isi.pegasus.planner.common.PegasusProperties;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The jobs and edges that make a workflow's waves. The command bbflow-pegasus plans them, for this and for 'wave'. */
public final class Layout {

    private static final String PREFIX = "pegasus.bbflow.";
    private static final String[] LIMITS = {"site", "capacity", "slots", "lookahead", "transfers"};

    /** The workflow that this planner plans: one for each run of it. */
    private static Layout sCurrent = new Layout();

    /** By wave, the jobs in the order in which their files come. */
    public final List<List<String>> waves = new ArrayList<>();

    /** By the name of a stage-in job, logical names of its files. */
    public final Map<String, List<String>> stageIns = new LinkedHashMap<>();

    /** By the name of a cleanup job, logical names of its files. */
    public final Map<String, List<String>> cleanUps = new LinkedHashMap<>();

    /** Names of jobs that only carry edges. */
    public final List<String> noOps = new ArrayList<>();

    /** Parent and child. */
    public final List<String[]> edges = new ArrayList<>();

    private Layout() {}

    /** @return what the refiner was told */
    public static Layout current() {
        return sCurrent;
    }

    /**
     * Lets bbflow-pegasus plan the waves.
     *
     * @param question about the workflow, line by line
     * @param properties with the limits, and with the command
     * @param submitDir where the plan is written down
     * @return the answer
     */
    static Layout ask(List<String> question, PegasusProperties properties, File submitDir) {
        String command = property(properties, "command", "bbflow-pegasus");
        List<String> lines = new ArrayList<>();
        for (String name : LIMITS) {
            lines.add("limit\t" + name + "\t" + property(properties, name, ""));
        }
        lines.addAll(question);
        try {
            Path asked = Files.createTempFile("bbflow-asked", ".txt");
            Path errors = Files.createTempFile("bbflow-errors", ".txt");
            try {
                Files.write(asked, lines, StandardCharsets.UTF_8);
                sCurrent = answer(command, submitDir, asked, errors);
            } finally {
                Files.deleteIfExists(asked);
                Files.deleteIfExists(errors);
            }
        } catch (IOException problem) {
            throw new IllegalStateException(
                    command + " can't be run (" + problem.getMessage() + "): set " + PREFIX + "command to where it is");
        }
        return sCurrent;
    }

    /**
     * Reads one of our own properties.
     *
     * @param properties of the planner
     * @param name without the part that all have
     * @param otherwise what counts if it isn't set
     * @return its value
     */
    static String property(PegasusProperties properties, String name, String otherwise) {
        String value = properties.getProperty(PREFIX + name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    private static Layout answer(String command, File submitDir, Path asked, Path errors) throws IOException {
        Process process = new ProcessBuilder(command, "layout", submitDir.getPath())
                .redirectInput(asked.toFile())
                .redirectError(errors.toFile())
                .start();
        Layout layout = new Layout();
        try (BufferedReader answer = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = answer.readLine(); line != null; line = answer.readLine()) {
                layout.add(line.split("\t"));
            }
            if (process.waitFor() != 0) {
                List<String> said = Files.readAllLines(errors, StandardCharsets.UTF_8);
                throw new IllegalArgumentException(said.isEmpty() ? command + " failed" : said.get(said.size() - 1));
            }
        } catch (InterruptedException stopped) {
            process.destroy();
            throw new IllegalStateException(command + " was interrupted");
        }
        return layout;
    }

    private void add(String[] words) {
        List<String> rest = Arrays.asList(words).subList(1, words.length);
        switch (words[0]) {
            case "remark":
                System.out.println("bbflow: " + words[1]);
                break;
            case "wave":
                waves.add(rest);
                break;
            case "stage_in":
                stageIns.put(rest.get(0), rest.subList(1, rest.size()));
                break;
            case "clean_up":
                cleanUps.put(rest.get(0), rest.subList(1, rest.size()));
                break;
            case "no_op":
                noOps.add(rest.get(0));
                break;
            case "edge":
                edges.add(new String[] {rest.get(0), rest.get(1)});
                break;
            default:
                throw new IllegalStateException("bbflow-pegasus is another version than this class: " + words[0]);
        }
    }
}
