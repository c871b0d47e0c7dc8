using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>
    /// A run in a process of its own. Another object, in another domain or process, can take it over, because
    /// everything about it is in files. Call all methods in one thread.
    /// </summary>
    public sealed class TrainerRun
    {
        private readonly SessionFile _session;
        private readonly TrainerProcess _process;
        private readonly LineFile _lines;

        private TrainerRun(SessionFile session, TrainerProcess process)
        {
            _session = session;
            _process = process;
            _lines = new LineFile(session["log"]);
        }

        /// <summary>What the trainer has said.</summary>
        public RunState State { get; } = new RunState();

        /// <summary>The numbers now; null: none yet.</summary>
        public RunStatus Status => RunStatus.Read(Folder);

        /// <summary>The run's folder.</summary>
        public string Folder => _session["run"];

        /// <summary>Whether it has ended.</summary>
        public bool HasEnded => State.Phase == RunPhase.Ended || State.Phase == RunPhase.Failed;

        /// <summary>Whether the trainer waits for Play, and was not answered yet.</summary>
        public bool WantsPlay => State.Phase == RunPhase.Waiting && _session["played"].Length == 0;

        /// <summary>Whether Play was pressed for it, it has ended, and Play was not left yet.</summary>
        public bool WantsLeave => HasEnded && _session["played"] == "yes";

        /// <summary>The lines of the watch: phase, decisions, reward, speed, time left, last warning.</summary>
        public string Summary(string name)
        {
            string outcome = State.Outcome == null ? string.Empty : ", " + State.Outcome;
            var lines = new List<string> { name + ": " + State.Phase + outcome };
            RunStatus now = Status;
            if (now != null)
            {
                lines.Add(now.ToString());
            }
            lines.AddRange(new[] { now?.Message, State.LastWarning }.Where(line => line != null));
            return string.Join("\n", lines);
        }

        /// <summary>Starts a run.</summary>
        /// <param name="tauTrain">The file of `tau-train`.</param>
        /// <param name="folder">Working directory: the Unity project.</param>
        /// <param name="state">Folder for the files of this session.</param>
        /// <exception cref="TrainerException">It does not start.</exception>
        public static TrainerRun Start(string tauTrain, LearnOptions options, string folder, string state)
        {
            var session = new SessionFile(FileIn(state));
            session.Clear();
            session["log"] = Path.Combine(state, "trainer.log");
            session["run"] = Path.Combine(options.Results, options.RunId);
            // the file is made before the process, so that nobody reads what an earlier one wrote
            Whole.Write(session["log"], partial => File.WriteAllText(partial, string.Empty));
            var process = TrainerProcess.Start(tauTrain, options.Arguments(session["log"]), folder);
            session.Process = process.Id;
            session["started"] = process.Started;
            session.Save();
            return new TrainerRun(session, process);
        }

        /// <summary>
        /// The run that an earlier domain or process started in this session; null if there was none.
        /// </summary>
        public static TrainerRun TakeOver(string state)
        {
            var session = new SessionFile(FileIn(state));
            return session.Process == 0
                ? null
                : new TrainerRun(session, TrainerProcess.Find(session.Process, session["started"]));
        }

        /// <summary>Reads what is new; returns sentences for the log.</summary>
        public IReadOnlyList<string> Poll()
        {
            if (HasEnded)
            {
                return Array.Empty<string>();
            }
            bool ended = _process == null || _process.HasEnded; // asked first, so that its last lines are read
            List<string> said = _lines.Read().Select(State.Take).Where(sentence => sentence != null).ToList();
            if (ended && State.Ended() is string how)
            {
                said.Add(how);
            }
            return said;
        }

        /// <summary>
        /// Remembers that Play was pressed for it. Save this before entering Play, which reloads the domain.
        /// </summary>
        public void Played()
        {
            _session["played"] = "yes";
            _session.Save();
        }

        /// <summary>Remembers that Play was left at its end, so that a later Play is the user's own.</summary>
        public void Left()
        {
            _session["played"] = "over";
            _session.Save();
        }

        /// <summary>
        /// Ends the run as Ctrl-C does: the trainer saves, evaluates and exports. Called again: it only saves. Before
        /// the trainer has said anything there is nothing to save, and it is killed.
        /// </summary>
        /// <exception cref="TrainerException">The request cannot be written.</exception>
        public void Stop()
        {
            if (HasEnded)
            {
                return;
            }
            if (!State.Heard)
            {
                _process?.Kill();
                return;
            }
            Whole.Write(Path.Combine(Folder, "run_logs", "stop"), partial => File.WriteAllText(partial, string.Empty));
        }

        /// <summary>
        /// The best model of a behavior that is better than the one in use; null if there is none.
        /// </summary>
        public ModelCandidate Offer(string behavior)
        {
            ModelCandidate best = ModelCandidate.Best(State.Models, behavior);
            return best == null || _session["used " + behavior] == Mark(best) ? null : best;
        }

        /// <summary>Remembers that a model is in use, so that it is not offered again.</summary>
        public void Used(ModelCandidate model)
        {
            _session["used " + model.Behavior] = Mark(model);
            _session.Save();
        }

        private static string Mark(ModelCandidate model)
        {
            return model.Step.ToString(CultureInfo.InvariantCulture) + (model.Final ? " final " : " ") + model.Path;
        }

        private static string FileIn(string state)
        {
            return Path.Combine(state, "session.json");
        }
    }
}
