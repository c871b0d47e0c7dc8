using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using UnityEditor;
using UnityEngine;

namespace Tau.Trainer.Editor
{
    /// <summary>
    /// Follows the run of this project, also without a window: presses Play when the trainer waits, and leaves it at
    /// the end. Each reload of the C# domain makes a new driver, which takes the run over.
    /// </summary>
    [InitializeOnLoad]
    internal static class TrainerDriver
    {
        private const double PollSeconds = 0.5;
        private const int MostLines = 300;

        private static readonly Queue<string> Lines = new Queue<string>();
        private static readonly ConcurrentQueue<Action> Arrived = new ConcurrentQueue<Action>();
        private static CancellationTokenSource _cancel;
        private static double _next;

        static TrainerDriver()
        {
            Run = TrainerRun.TakeOver(State);
            EditorApplication.update += Update;
            EditorApplication.quitting += () => Try(() => Run?.Stop());
            AssemblyReloadEvents.beforeAssemblyReload += Cancel;
        }

        /// <summary>The Unity project's folder.</summary>
        public static string Project => Path.GetDirectoryName(Application.dataPath);

        /// <summary>The folder of runs.</summary>
        public static string Results => Path.Combine(Project, "results");

        /// <summary>The virtual environment that Install makes.</summary>
        public static string OwnEnvironment => Path.Combine(State, "venv");

        /// <summary>The run; null: none was started.</summary>
        public static TrainerRun Run { get; private set; }

        /// <summary>Whether a trainer runs.</summary>
        public static bool IsRunning => Run != null && !Run.HasEnded;

        /// <summary>Whether a command runs that <see cref="Cancel"/> ends.</summary>
        public static bool IsBusy => _cancel != null;

        /// <summary>Text of the log.</summary>
        public static string Log => string.Join("\n", Lines);

        private static string State => Path.Combine(Project, "UserSettings", "TauTrainer");

        /// <summary>The file of `tau-train`.</summary>
        /// <exception cref="TrainerException">There is none.</exception>
        public static string Find()
        {
            string[] environments = { OwnEnvironment, Path.Combine(Project, ".venv"), Path.Combine(Project, "venv") };
            return Installation.Find(Setting("tau-train"), environments, Machine.Here());
        }

        /// <summary>A setting of this user for this project; empty if it was never set.</summary>
        public static string Setting(string name)
        {
            return EditorUserSettings.GetConfigValue("tau-trainer " + name) ?? string.Empty;
        }

        /// <summary>Changes a setting.</summary>
        public static void Set(string name, string value)
        {
            EditorUserSettings.SetConfigValue("tau-trainer " + name, value);
        }

        /// <summary>Starts a run.</summary>
        public static void Start(LearnOptions options)
        {
            options.Results = Results;
            Try(() => Run = TrainerRun.Start(Find(), options, Project, State));
        }

        /// <summary>Adds a line to the log; call from any thread.</summary>
        public static void Say(string line)
        {
            Later(() =>
            {
                Lines.Enqueue(line);
                if (Lines.Count > MostLines)
                {
                    Lines.Dequeue();
                }
            });
        }

        /// <summary>Does something in the editor's thread; call from any thread.</summary>
        public static void Later(Action action)
        {
            Arrived.Enqueue(action);
        }

        /// <summary>Does something; a problem becomes a line of the log.</summary>
        public static void Try(Action action)
        {
            try
            {
                action();
            }
            catch (TrainerException problem)
            {
                Say(problem.Message);
            }
        }

        /// <summary>Runs a command that may take long, one at a time; a problem becomes a line of the log.</summary>
        public static async void Begin(Func<CancellationToken, Task> command)
        {
            if (IsBusy)
            {
                Say("Another command is running: wait for it, or click Cancel.");
                return;
            }
            using (_cancel = new CancellationTokenSource())
            {
                try
                {
                    await command(_cancel.Token);
                }
                catch (TrainerException problem)
                {
                    Say(problem.Message);
                }
                catch (OperationCanceledException)
                {
                    Say("Cancelled.");
                }
                finally
                {
                    _cancel = null;
                }
            }
        }

        /// <summary>Ends the command that runs.</summary>
        public static void Cancel()
        {
            _cancel?.Cancel();
        }

        private static void Update()
        {
            while (Arrived.TryDequeue(out Action action))
            {
                action();
            }
            if (Run == null || EditorApplication.timeSinceStartup < _next)
            {
                return;
            }
            _next = EditorApplication.timeSinceStartup + PollSeconds;
            foreach (string sentence in Run.Poll())
            {
                Say(sentence);
            }
            Try(PressPlay);
        }

        private static void PressPlay()
        {
            bool playing = EditorApplication.isPlayingOrWillChangePlaymode;
            if (Run.WantsPlay && playing)
            {
                EditorApplication.ExitPlaymode(); // agents connect when Play begins, so it has to begin again
            }
            else if (Run.WantsPlay && !EditorApplication.isCompiling)
            {
                Run.Played(); // before the reload
                EditorApplication.EnterPlaymode();
            }
            else if (Run.WantsLeave)
            {
                Run.Left();
                if (playing)
                {
                    EditorApplication.ExitPlaymode();
                }
            }
        }
    }
}
