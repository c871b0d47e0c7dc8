using System.Collections.Generic;
using System.Globalization;

namespace Tau.Trainer
{
    /// <summary>A run to start.</summary>
    public sealed class LearnOptions
    {
        /// <summary>Seconds that the trainer waits for Play: a large project takes long to enter it.</summary>
        public const int PatienceSeconds = 600;

        /// <summary>Path of the settings file; empty: the trainer's defaults.</summary>
        public string Settings { get; set; }

        /// <summary>The run's name.</summary>
        public string RunId { get; set; }

        /// <summary>Folder of all runs.</summary>
        public string Results { get; set; }

        /// <summary>Whether to continue the run of this name.</summary>
        public bool Resume { get; set; }

        /// <summary>Path of a build; empty: the editor.</summary>
        public string Build { get; set; }

        /// <summary>Number of processes of the build.</summary>
        public int Engines { get; set; } = 1;

        /// <summary>
        /// The arguments of `tau-train`. Values are bound to their flags, so that none is read as one.
        /// </summary>
        /// <param name="log">File for its output.</param>
        public IReadOnlyList<string> Arguments(string log)
        {
            var words = new List<string> { "learn" };
            if (!string.IsNullOrEmpty(Settings))
            {
                words.Add(Settings);
            }
            bool build = !string.IsNullOrEmpty(Build);
            words.Add("--env=" + (build ? Build : "editor"));
            words.Add("--run-id=" + RunId);
            words.Add("--results-dir=" + Results);
            words.Add("--log=" + log);
            words.Add("--json");
            words.Add(build ? "--num-envs=" + Text(Engines) : "--timeout-wait=" + Text(PatienceSeconds));
            if (build)
            {
                words.Add("--no-graphics");
            }
            if (Resume)
            {
                words.Add("--resume");
            }
            return words;
        }

        private static string Text(int number)
        {
            return number.ToString(CultureInfo.InvariantCulture);
        }
    }
}
