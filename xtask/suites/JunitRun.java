import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs all test classes of a folder, and prints a line for each test. */
public class JunitRun extends RunListener {
  /** What a test has been found to be while it ran, or null. */
  private String end;

  /** Arguments: the folder of the classes, then parts of names of tests to leave out. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    List<String> left = List.of(arguments).subList(1, arguments.length);
    List<String> names;
    try (Stream<Path> files = Files.walk(folder)) {
      names =
          files
              .map(file -> folder.relativize(file).toString())
              .filter(file -> file.endsWith("Test.class"))
              .map(file -> file.substring(0, file.length() - 6).replace('/', '.'))
              .filter(name -> left.stream().noneMatch(name::contains))
              .sorted()
              .toList();
    }
    JUnitCore core = new JUnitCore();
    core.addListener(new JunitRun());
    for (String name : names) {
      core.run(Class.forName(name));
    }
    // Threads of the driver's pools would go on.
    System.exit(0);
  }

  private static void print(String end, Description test) {
    System.out.println("\n" + end + " " + test.getClassName() + "." + test.getMethodName());
  }

  @Override
  public void testStarted(Description test) {
    end = "PASSED";
  }

  @Override
  public void testFailure(Failure failure) {
    // Of a class, when it can't begin.
    if (failure.getDescription().isSuite()) {
      print("FAILED", failure.getDescription());
    }
    System.err.println(failure.getTestHeader() + "\n" + failure.getTrace());
    end = "FAILED";
  }

  @Override
  public void testAssumptionFailure(Failure failure) {
    end = "SKIPPED";
  }

  @Override
  public void testIgnored(Description test) {
    print("SKIPPED", test);
  }

  @Override
  public void testFinished(Description test) {
    print(end, test);
  }
}
