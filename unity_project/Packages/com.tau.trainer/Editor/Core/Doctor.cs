using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Trainer
{
    /// <summary>What `tau-train doctor` found.</summary>
    public sealed class Doctor
    {
        private Doctor(JsonNode found)
        {
            JsonNode versions = found["versions"];
            Versions = "Tau Trainer " + versions["tau-trainer"].Text + ", Python " + versions["python"].Text
                + ", torch " + (versions["torch"].Text ?? "missing");
            Problems = found["checks"].Items
                .Where(check => check["remedy"].Text != null)
                .Select(check => check["name"].Text + " " + check["found"].Text + ": " + check["remedy"].Text + ".")
                .ToArray();
        }

        /// <summary>The versions, in a few words.</summary>
        public string Versions { get; }

        /// <summary>A sentence for each problem: what is wrong, and what to do.</summary>
        public IReadOnlyList<string> Problems { get; }

        /// <summary>Asks `tau-train`.</summary>
        /// <exception cref="TrainerException">It does not work.</exception>
        public static async Task<Doctor> AskAsync(
            string tauTrain, string folder, string results, CancellationToken token)
        {
            string[] words = { "doctor", "--json", "--results-dir=" + results };
            ToolResult done = await Tool.RunAsync(tauTrain, words, folder, _ => { }, token).ConfigureAwait(false);
            JsonNode found = JsonNode.Read(done.Output);
            if (found["schema"].Number == null)
            {
                throw new TrainerException(
                    tauTrain + " does not work (" + done.LastLine.TrimEnd('.') + "): install Tau Trainer again.");
            }
            return new Doctor(found);
        }
    }
}
