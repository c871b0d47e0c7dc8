using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Threading;

namespace Tau.Trainer.Drive
{
    /// <summary>
    /// Does what the window does, without an editor. Each command is a process, as each reload of the C# domain makes new
    /// objects. It prints sentences for the window's log, and at the end `key: value` of what it found.
    /// </summary>
    internal static class Program
    {
        private const string Behavior = "TauAgent";

        private static string _project;

        private static string State => Path.Combine(_project, "UserSettings", "TauTrainer");

        public static int Main(string[] args)
        {
            _project = args[1];
            Watchdog(double.Parse(args[2]));
            try
            {
                switch (args[0])
                {
                    case "doctor":
                        Diagnose(args[3]);
                        break;
                    case "begin":
                        Begin(args[3], args[4], args[5], args[6], false);
                        break;
                    case "finish":
                        Finish();
                        break;
                    case "killed":
                        Killed(args[3], args[4], args[5], args[6]);
                        break;
                    default:
                        Taken(args[3], args[4]);
                        break;
                }
                return 0;
            }
            catch (TrainerException problem)
            {
                Console.WriteLine("problem: " + problem.Message);
                return 3;
            }
        }

        private static void Diagnose(string tauTrain)
        {
            string results = Path.Combine(_project, "results");
            Doctor doctor = Doctor.AskAsync(tauTrain, _project, results, CancellationToken.None).GetAwaiter().GetResult();
            Console.WriteLine("versions: " + doctor.Versions);
            doctor.Problems.ToList().ForEach(problem => Console.WriteLine("problem: " + problem));
        }

        /// <summary>Starts a run, presses Play when it waits, and leaves it once there is a model.</summary>
        private static TrainerRun Begin(string tauTrain, string settings, string player, string port, bool resume)
        {
            TrainerRun run = TrainerRun.Start(tauTrain, Options(settings, resume), _project, State);
            Until(run, () => run.WantsPlay);
            run.Played();
            Console.WriteLine("played: " + !run.WantsPlay);
            string[] flags = { "--mlagents-port", port, "--tau-agents", "4", "--tau-max-decisions", "20" };
            TrainerProcess engine = TrainerProcess.Start(player, flags, _project);
            Console.WriteLine("engine: " + engine.Id);
            Until(run, () => run.State.Phase == RunPhase.Training && run.Status?.Decisions > 0);
            Until(run, () => run.Offer(Behavior) != null);
            return run;
        }

        /// <summary>Takes over the run that another process began, watches it, stops it, and uses its model.</summary>
        private static void Finish()
        {
            TrainerRun run = TrainerRun.TakeOver(State);
            run.Poll().ToList().ForEach(_ => { });
            Console.WriteLine("taken over: " + run.State.Phase + ", wants play " + run.WantsPlay);
            ModelCandidate early = run.Offer(Behavior);
            run.Used(early);
            long before = run.Status.Decisions;
            Until(run, () => run.Status.Decisions > before && run.State.Curves.ContainsKey(Behavior));
            run.Stop();
            Until(run, () => run.HasEnded);
            ModelCandidate model = run.Offer(Behavior);
            Console.WriteLine("model: " + model.CopyTo(Path.Combine(_project, "Assets", "Models")));
            Console.WriteLine("final: " + model.Final + ", early " + early.Final);
            run.Used(model);
            Console.WriteLine("offered again: " + (run.Offer(Behavior) != null));
            bool leaves = run.WantsLeave;
            run.Left();
            TrainerRun later = TrainerRun.TakeOver(State);
            later.Poll();
            Console.WriteLine("leaves Play: " + leaves + ", later " + later.WantsLeave + ", ended " + later.HasEnded);
            RunEntry entry = RunList.Read(Path.GetDirectoryName(run.Folder)).Single();
            Console.WriteLine("run: " + entry.Id + ", resumable " + entry.CanResume + ", " + entry.Status.Outcome);
        }

        /// <summary>Resumes the run, and kills its trainer in the middle.</summary>
        private static void Killed(string tauTrain, string settings, string player, string port)
        {
            TrainerRun run = Begin(tauTrain, settings, player, port, true);
            Process.GetProcessById(run.Status.Process).Kill();
            Until(run, () => run.HasEnded);
        }

        /// <summary>Starts a run that ends by itself.</summary>
        private static void Taken(string tauTrain, string settings)
        {
            TrainerRun run = TrainerRun.Start(tauTrain, Options(settings, false), _project, State);
            Until(run, () => run.HasEnded);
        }

        private static LearnOptions Options(string settings, bool resume)
        {
            string results = Path.Combine(_project, "results");
            string id = resume ? RunList.Read(results)[0].Id : RunList.NextId(results, settings);
            return new LearnOptions { Settings = settings, RunId = id, Results = results, Resume = resume };
        }

        private static void Until(TrainerRun run, Func<bool> condition)
        {
            while (true)
            {
                foreach (string sentence in run.Poll())
                {
                    Console.WriteLine("said: " + sentence);
                }
                if (condition())
                {
                    Console.WriteLine("phase: " + run.State.Phase + ", " + run.State.Outcome);
                    return;
                }
                if (run.HasEnded)
                {
                    throw new TrainerException("the run has ended");
                }
                Thread.Sleep(50);
            }
        }

        private static void Watchdog(double seconds)
        {
            var thread = new Thread(() =>
            {
                Thread.Sleep(TimeSpan.FromSeconds(seconds));
                Console.WriteLine("problem: nothing happens");
                Environment.Exit(4);
            });
            thread.IsBackground = true;
            thread.Start();
        }
    }
}
