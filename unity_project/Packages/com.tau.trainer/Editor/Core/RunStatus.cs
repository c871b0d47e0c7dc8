using System;
using System.Globalization;
using System.IO;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>The numbers of a run now, from its `status.json`.</summary>
    public sealed class RunStatus
    {
        private const double LongestSeconds = 1e9;

        private static readonly CultureInfo Plain = CultureInfo.InvariantCulture;

        private RunStatus(JsonNode file)
        {
            JsonNode run = file["run"];
            Process = (int)(file["pid"].Number ?? 0);
            Outcome = file["outcome"].Text;
            Decisions = (long)(run["decisions"].Number ?? 0);
            MaxDecisions = (long)(run["max_decisions"].Number ?? 0);
            Speed = run["decisions_per_second"].Number ?? 0;
            SecondsLeft = run["eta_s"].Number;
            Message = run["message"].Text;
            MeanReward = run["behaviors"].Items.Select(each => each["mean_reward"].Number).FirstOrDefault();
        }

        /// <summary>Number of the trainer's process.</summary>
        public int Process { get; }

        /// <summary>How the run ended; null: it has not.</summary>
        public string Outcome { get; }

        /// <summary>Decisions so far.</summary>
        public long Decisions { get; }

        /// <summary>Where the run ends; 0: unknown.</summary>
        public long MaxDecisions { get; }

        /// <summary>Decisions per second.</summary>
        public double Speed { get; }

        /// <summary>Seconds until the end; null: unknown.</summary>
        public double? SecondsLeft { get; }

        /// <summary>Mean reward of the first behavior; null: no episode has ended.</summary>
        public double? MeanReward { get; }

        /// <summary>What the run waits for, if someone must act; null: nothing.</summary>
        public string Message { get; }

        /// <summary>The status of the run in this folder; null if there is none yet.</summary>
        public static RunStatus Read(string folder)
        {
            try
            {
                JsonNode file = JsonNode.Read(File.ReadAllText(Path.Combine(folder, "status.json")));
                return file["run"].Fields.Count > 0 ? new RunStatus(file) : null;
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                return null;
            }
        }

        /// <summary>Decisions, mean reward, speed and time left, in words.</summary>
        public override string ToString()
        {
            string limit = MaxDecisions > 0 ? " of " + MaxDecisions.ToString("N0", Plain) : string.Empty;
            string text = Decisions.ToString("N0", Plain) + limit + " decisions, "
                + Speed.ToString("N0", Plain) + " a second";
            if (MeanReward != null)
            {
                text += ", mean reward " + MeanReward.Value.ToString("0.000", Plain);
            }
            if (SecondsLeft == null || Outcome != null)
            {
                return text;
            }
            TimeSpan left = TimeSpan.FromSeconds(Math.Min(SecondsLeft.Value, LongestSeconds));
            string hours = Math.Floor(left.TotalHours).ToString("0", Plain);
            return text + ", " + hours + left.ToString("\\:mm\\:ss", Plain) + " left";
        }
    }
}
