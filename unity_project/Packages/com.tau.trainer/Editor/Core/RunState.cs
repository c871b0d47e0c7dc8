using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>Where a run stands.</summary>
    public enum RunPhase
    {
        /// <summary>The trainer loads; nothing is to be saved yet.</summary>
        Starting,

        /// <summary>The trainer waits until someone presses Play.</summary>
        Waiting,

        /// <summary>It trains.</summary>
        Training,

        /// <summary>It was asked to end; it saves and exports.</summary>
        Ending,

        /// <summary>It has ended, and said how.</summary>
        Ended,

        /// <summary>It has ended without a result.</summary>
        Failed,
    }

    /// <summary>
    /// What the lines of `--json` say of a run, from its start to now. Lines are described in docs/output.md; unknown
    /// ones are ignored.
    /// </summary>
    public sealed class RunState
    {
        /// <summary>The version of the lines that this class reads.</summary>
        public const int Schema = 1;

        private const string Reward = "Environment/Cumulative Reward";
        private const int MostPoints = 1000;

        private readonly List<ModelCandidate> _models = new List<ModelCandidate>();
        private readonly Dictionary<string, List<(double Step, double Reward)>> _curves =
            new Dictionary<string, List<(double Step, double Reward)>>();

        /// <summary>Where it stands.</summary>
        public RunPhase Phase { get; private set; }

        /// <summary>Whether the trainer has said anything: from then on it hears a request to stop.</summary>
        public bool Heard { get; private set; }

        /// <summary>The last warning; null: none.</summary>
        public string LastWarning { get; private set; }

        /// <summary>How it ended: `completed`, `cancelled`, `failed`; null: it has not.</summary>
        public string Outcome { get; private set; }

        /// <summary>The models that it wrote, oldest first.</summary>
        public IReadOnlyList<ModelCandidate> Models => _models;

        /// <summary>Mean rewards of episodes over decisions, by behavior.</summary>
        public IReadOnlyDictionary<string, List<(double Step, double Reward)>> Curves => _curves;

        /// <summary>Takes the next line in; returns a sentence for the person who watches, or null.</summary>
        public string Take(string line)
        {
            if (Phase == RunPhase.Ended)
            {
                return null; // after the result, its errors are repeated for people
            }
            if (!line.StartsWith("{", StringComparison.Ordinal))
            {
                return Say(line);
            }
            if (line.StartsWith("{\"type\":\"snapshot\"", StringComparison.Ordinal))
            {
                return null; // status.json has the newest, and this is the bulk of the file
            }
            JsonNode record = JsonNode.Read(line);
            double? version = record["schema"].Number;
            if (version != Schema)
            {
                return version == null ? null : Say(
                    "error: this tau-train writes version " + version + " of its output, and this window reads version "
                    + Schema + ": update the package com.tau.trainer or Tau Trainer.");
            }
            Heard = true;
            switch (record["type"].Text)
            {
                case "event":
                    return Event(record["kind"].Text, record["fields"]);
                case "summary":
                    Summary(record);
                    return null;
                case "result":
                    return Result(record);
                default:
                    return null;
            }
        }

        /// <summary>Notes that the process has ended; returns a sentence if it did so without a result.</summary>
        public string Ended()
        {
            if (Phase == RunPhase.Ended || Phase == RunPhase.Failed)
            {
                return null;
            }
            bool begun = Phase != RunPhase.Starting && Phase != RunPhase.Waiting;
            bool told = Outcome == "failed";
            Phase = RunPhase.Failed;
            Outcome = "failed";
            return told ? null : "The trainer ended without a result, so it was killed or it crashed: "
                + (begun ? "click Resume to continue from its last checkpoint." : "start it again.");
        }

        private string Say(string line)
        {
            string text = line.Trim();
            if (text.StartsWith("error:", StringComparison.Ordinal))
            {
                Outcome = "failed"; // unless a result follows
                return text.Substring("error:".Length).Trim();
            }
            if (text.StartsWith("warning:", StringComparison.Ordinal))
            {
                return LastWarning = text.Substring("warning:".Length).Trim();
            }
            return text.Length > 0 ? text : null;
        }

        private string Event(string kind, JsonNode fields)
        {
            string message = fields["message"].Text;
            switch (kind)
            {
                case "waiting":
                    Phase = RunPhase.Waiting;
                    break;
                case "pair" when fields["state"].Text == "Training" && Phase != RunPhase.Ending:
                    Phase = RunPhase.Training;
                    break;
                case "note":
                    Phase = RunPhase.Ending;
                    break;
                case "warning":
                    LastWarning = message;
                    break;
                case "checkpoint":
                case "exported":
                    Model(fields, kind == "exported");
                    break;
                default:
                    break;
            }
            return message;
        }

        private void Model(JsonNode fields, bool final)
        {
            string behavior = fields["behavior"].Text;
            string path = fields["model"].Text;
            if (behavior != null && path != null)
            {
                var step = (long)(fields["step"].Number ?? 0);
                _models.Add(new ModelCandidate(behavior, path, step, fields["reward"].Number, final));
            }
        }

        private void Summary(JsonNode record)
        {
            string behavior = record["behavior"].Text;
            double? reward = record["values"][Reward].Number;
            if (behavior == null || reward == null)
            {
                return;
            }
            if (!_curves.TryGetValue(behavior, out List<(double Step, double Reward)> curve))
            {
                _curves[behavior] = curve = new List<(double Step, double Reward)>();
            }
            curve.Add((record["step"].Number ?? 0, reward.Value));
            if (curve.Count > MostPoints)
            {
                // every second point of the older half goes: the curve keeps its shape, and the list its bounds
                var index = 0;
                curve.RemoveAll(point => index++ < MostPoints / 2 && index % 2 == 0);
            }
        }

        private string Result(JsonNode record)
        {
            Phase = RunPhase.Ended;
            Outcome = record["outcome"].Text;
            IEnumerable<string> errors = record["errors"].Items.Select(error => error.Text);
            return string.Join(" ", new[] { "The run is " + Outcome + ".", record["verdict"].Text }.Concat(errors)
                .Where(text => !string.IsNullOrEmpty(text)));
        }
    }
}
