using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Tau.Core.Tests;

namespace Tau.Trainer.Tests
{
    public sealed class InstallationTests
    {
        private static readonly string[] None = new string[0];

        [Test]
        public void TheEnvironmentComesBeforePathAndAChoiceBeforeBoth()
        {
            using (var place = new Place())
            {
                var machine = new Machine(false, new[] { "bad\0folder", place["none"], place["path"] });
                string path = place.Write("path/tau-train");
                Assert.Equal(path, Installation.Find(string.Empty, new[] { place["venv"] }, machine));
                string environment = place.Write("venv/bin/tau-train");
                Assert.Equal(environment, Installation.Find(null, new[] { place["venv"] }, machine));
                string other = place.Write("other/bin/tau-train");
                Assert.Equal(other, Installation.Find(place["other"], new[] { place["venv"] }, machine));
                Assert.Equal(path, Installation.Find(path, new[] { place["venv"] }, machine));
            }
        }

        [Test]
        public void OnWindowsProgramsAreElsewhere()
        {
            using (var place = new Place())
            {
                var machine = new Machine(true, None);
                string file = place.Write("venv/Scripts/tau-train.exe");
                Assert.Equal(file, Installation.Find(string.Empty, new[] { place["venv"] }, machine));
            }
        }

        [Test]
        public void WhatIsNotThereIsOneSentence()
        {
            using (var place = new Place())
            {
                var machine = new Machine(false, None);
                Refused("tau-train was not found: click Install, or choose its path.", string.Empty);
                Refused(place["no"] + " does not exist: choose the file tau-train, or the folder of a virtual environment.",
                    place["no"]);
                Refused(place.Folder + " is no virtual environment with Tau Trainer (it has no "
                    + place["bin/tau-train"] + "): choose another one, or click Install.", place.Folder);

                void Refused(string sentence, string chosen)
                {
                    var error = Assert.Throws<TrainerException>(() => Installation.Find(chosen, None, machine));
                    Assert.Equal(sentence, error.Message);
                }
            }
        }

        [Test]
        public void ThisMachineHasAShell()
        {
            Assert.True(Machine.Here().Find("sh").Any());
            Assert.True(!Machine.Here().IsWindows);
        }

        [Test]
        public void ANewEnvironmentIsMadeAndTheLogTold()
        {
            using (var place = new Place())
            {
                Python(place, "3 9", "python3.12");
                Python(place, "3 11", "python3");
                var log = new List<string>();
                string file = Install(place, log.Add);
                Assert.Equal(place["new/venv/bin/tau-train"], file);
                Assert.Equal("--disable-pip-version-check -- the package", File.ReadAllText(place["new/venv/asked"]).Trim());
                Assert.Equal("python3 -m venv " + place["new/venv"], log[0]);
                Assert.True(log.Contains("collecting") && log.Contains("a warning"), string.Join("|", log));
            }
        }

        [Test]
        public void NoPythonIsOneSentence()
        {
            using (var place = new Place())
            {
                Python(place, "3 10", "python3");
                Python(place, "nonsense", "python");
                place.Write("path/python3.13", "#!/no/such/interpreter\n");
                var error = Assert.Throws<AggregateException>(() => Install(place, _ => { }));
                Assert.Equal(
                    "No Python 3.11 or newer was found: install it from python.org, and try again.",
                    ((TrainerException)error.InnerException).Message);
                Assert.True(!Directory.Exists(place["new"]));
            }
        }

        [Test]
        public void AnInstallationThatFailsSaysWhyAndLeavesNothing()
        {
            using (var place = new Place())
            {
                Python(place, "3 13", "python3", "echo 'ERROR: no such package.' >&2; exit 1");
                var error = Assert.Throws<AggregateException>(() => Install(place, _ => { }));
                Assert.Equal(
                    "the package could not be installed in " + place["new/venv"]
                    + " (ERROR: no such package): solve this, and click Install again.",
                    ((TrainerException)error.InnerException).Message);
                Assert.True(!Directory.Exists(place["new/venv"]));
            }
        }

        [Test]
        public void AnInstallationIsCancelled()
        {
            using (var place = new Place())
            using (var cancel = new CancellationTokenSource())
            {
                Python(place, "3 13", "python3", "echo begun; exec sleep 1000");
                var error = Assert.Throws<AggregateException>(
                    () => Install(place, line => { if (line == "begun") { cancel.Cancel(); } }, cancel.Token));
                Assert.True(error.InnerException is OperationCanceledException, error.ToString());
                Assert.True(!Directory.Exists(place["new/venv"]));
            }
        }

        [Test]
        public void ABrokenEnvironmentIsOneSentence()
        {
            using (var place = new Place())
            {
                string gone = Program(place, "gone", "#!/no/such/interpreter\n");
                Assert.Contains(gone + " does not start (", Asked(place, gone));
                string broken = Program(
                    place, "broken", "#!/bin/sh\necho 'Traceback' >&2; echo \"ModuleNotFoundError: No module named 'x'\" >&2\nexit 1\n");
                Assert.Equal(
                    broken + " does not work (ModuleNotFoundError: No module named 'x'): install Tau Trainer again.",
                    Asked(place, broken));
                string silent = Program(place, "silent", "#!/bin/sh\nexit 3\n");
                Assert.Equal(silent + " does not work (it said nothing): install Tau Trainer again.", Asked(place, silent));
            }
        }

        [Test]
        public void TheDoctorsProblemsAreSentences()
        {
            using (var place = new Place())
            {
                const string Said = "{\"schema\": 1, \"ok\": false, \"checks\": ["
                    + "{\"name\": \"torch\", \"found\": \"is not installed\", \"remedy\": \"install it\"}, "
                    + "{\"name\": \"results\", \"found\": \"x can be written\", \"remedy\": null}], "
                    + "\"versions\": {\"python\": \"3.11.7\", \"tau-trainer\": \"0.1.0\", \"torch\": null}}";
                string file = Program(place, "tau-train", "#!/bin/sh\necho '" + Said + "'\necho \"$@\" >&2\nexit 1\n");
                Doctor doctor = Doctor.AskAsync(file, place.Folder, "results", CancellationToken.None).Result;
                Assert.Equal("Tau Trainer 0.1.0, Python 3.11.7, torch missing", doctor.Versions);
                Assert.Sequence(new[] { "torch is not installed: install it." }, doctor.Problems);
            }
        }

        private static string Asked(Place place, string file)
        {
            var error = Assert.Throws<AggregateException>(
                () => Doctor.AskAsync(file, place.Folder, "results", CancellationToken.None).Wait());
            return ((TrainerException)error.InnerException).Message;
        }

        private static string Install(Place place, Action<string> say, CancellationToken token = default)
        {
            var machine = new Machine(false, new[] { place["path"] });
            return Task.Run(() => Installation.InstallAsync(place["new/venv"], "the package", machine, say, token)).Result;
        }

        /// <summary>A Python that makes an environment in which it is Python again; `pip` does what the script says.</summary>
        private static void Python(Place place, string version, string name, string pip = null)
        {
            const string Usual = "echo collecting; echo 'a warning' >&2; shift 3; here=$(dirname \"$0\"); "
                + "echo \"$@\" > \"$here/../asked\"; touch \"$here/tau-train\"";
            Program(place, "path/" + name, "#!/bin/sh\ncase \"$2\" in\n"
                + "venv) mkdir -p \"$3/bin\"; cp \"$0\" \"$3/bin/python\";;\n"
                + "pip) " + (pip ?? Usual) + ";;\n*) echo '" + version + "';;\nesac\n");
        }

        private static string Program(Place place, string name, string text)
        {
            string file = place.Write(name, text);
            Tool.RunAsync("/bin/chmod", new[] { "755", file }, place.Folder, _ => { }, CancellationToken.None).Wait();
            return file;
        }
    }
}
