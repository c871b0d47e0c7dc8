using System;
using System.Collections.Generic;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Text;

namespace Tau.Core.Tests
{
    /// <summary>Small data sets for tests, made in memory: words and vectors that a test can foresee.</summary>
    public static class GameData
    {
        /// <summary>Forty training rows with ten answers and twelve held-out rows; vectors without meaning.</summary>
        public static TauDataset Forty()
        {
            return Read(Numbered("train", 40), Numbered("held", 12), Scattered);
        }

        /// <summary>A task on <see cref="Forty"/>.</summary>
        public static TauTask Task(string profile = "tau3", TauRules rules = null)
        {
            return new TauTask(Forty(), TauProfile.Get(profile), rules);
        }

        /// <summary>
        /// A task in `tau384` whose first component pays alone and whose targets there are exactly 1 or -1, so that an
        /// agent can earn any multiple of 1/8 exactly: see <see cref="Earning"/>.
        /// </summary>
        public static TauTask ExactTask(TauRules rules)
        {
            var rows = new[] { ("left", "minus"), ("right", "plus") };
            var exact = new TauRules(
                "incremental", 1, rules.Threshold, rules.MaxDecisions, rules.RewardThreshold, rules.FaithfulTerminal);
            return new TauTask(Read(rows, rows.Take(0), Axis), TauProfile.Get("tau384"), exact);
        }

        /// <summary>The action of an <see cref="ExactTask"/> that earns this reward, from -3 to 1.</summary>
        public static float[] Earning(double reward, float[] target)
        {
            var output = new float[target.Length];
            var error = (1.0 - reward) / 2.0;
            output[0] = (float)(target[0] > 0f ? target[0] - error : target[0] + error);
            return output;
        }

        /// <summary>A data set of these rows; texts without a vector (null) have none in the archive.</summary>
        public static TauDataset Read(
            IEnumerable<(string Prompt, string Answer)> train,
            IEnumerable<(string Prompt, string Answer)> held,
            Func<string, float[]> vector)
        {
            var training = train.ToList();
            var evaluation = held.ToList();
            using (var json = new MemoryStream(JsonBytes(training, evaluation)))
            using (var vectors = new MemoryStream(NpzBytes(training.Concat(evaluation), vector)))
            {
                return TauDataset.Read(json, vectors, "game.json");
            }
        }

        /// <summary>Writes the files of a data set to a folder and returns the path of the JSON file.</summary>
        public static string Write(
            string folder, IEnumerable<(string Prompt, string Answer)> train, Func<string, float[]> vector)
        {
            var rows = train.ToList();
            var path = Path.Combine(folder, "game.json");
            File.WriteAllBytes(path, JsonBytes(rows, new List<(string, string)>()));
            File.WriteAllBytes(Path.Combine(folder, "game.vectors.npz"), NpzBytes(rows, vector));
            return path;
        }

        /// <summary>Rows "train question 7" with the answer "answer 7", of which there are ten.</summary>
        public static List<(string Prompt, string Answer)> Numbered(string name, int count)
        {
            return Enumerable.Range(0, count).Select(row => ($"{name} question {row}", $"answer {row % 10}")).ToList();
        }

        /// <summary>A vector that depends on the text alone.</summary>
        public static float[] Scattered(string text)
        {
            var seed = text.Aggregate(17L, (sum, letter) => (sum * 31) + letter);
            var random = new AgentRandom(seed, 0);
            return Enumerable.Range(0, TauProfile.EmbeddingSize)
                .Select(_ => (float)(random.NextUniform() - 0.5)).ToArray();
        }

        private static float[] Axis(string text)
        {
            var vector = new float[TauProfile.EmbeddingSize];
            vector[0] = text == "left" || text == "minus" ? -1f : 1f;
            return vector;
        }

        private static byte[] JsonBytes(List<(string Prompt, string Answer)> train, List<(string, string)> held)
        {
            var text = $"{{\"training_data\": [{Messages(train)}], \"evaluation_data\": [{Messages(held)}]}}";
            return Encoding.UTF8.GetBytes(text);
        }

        private static string Messages(List<(string Prompt, string Answer)> rows)
        {
            return string.Join(", ", rows.Select(row =>
                "{\"domain\": \"d\", \"turns\": [{\"role\": \"User\", \"message\": \"" + row.Prompt
                + "\"}, {\"role\": \"Agent\", \"message\": \"" + row.Answer + "\"}]}"));
        }

        private static byte[] NpzBytes(IEnumerable<(string Prompt, string Answer)> rows, Func<string, float[]> vector)
        {
            var known = rows.SelectMany(row => new[] { row.Prompt, row.Answer }).Distinct()
                .Select(text => (Text: text, Vector: vector(text))).Where(entry => entry.Vector != null).ToList();
            var floats = known.SelectMany(entry => entry.Vector).SelectMany(BitConverter.GetBytes).ToArray();
            var keys = known.Select(entry => "\"" + TextKey.Of(entry.Text) + "\"");
            var texts = Encoding.UTF8.GetBytes("[" + string.Join(", ", keys) + "]");
            using (var file = new MemoryStream())
            {
                using (var archive = new ZipArchive(file, ZipArchiveMode.Create, true))
                {
                    Add(archive, "vectors", "<f4", $"({known.Count}, {TauProfile.EmbeddingSize})", floats);
                    Add(archive, "texts", "|u1", $"({texts.Length},)", texts);
                    Add(archive, "encoder", "|u1", "(4,)", Encoding.UTF8.GetBytes("test"));
                }
                return file.ToArray();
            }
        }

        /// <summary>One array in numpy's format 1.0 (NEP 1).</summary>
        private static void Add(ZipArchive archive, string name, string type, string shape, byte[] content)
        {
            var header = $"{{'descr': '{type}', 'fortran_order': False, 'shape': {shape}, }}";
            header = header.PadRight(((10 + header.Length + 64) / 64 * 64) - 11) + "\n";
            using (var stream = archive.CreateEntry(name + ".npy").Open())
            {
                var magic = new byte[] { 0x93, (byte)'N', (byte)'U', (byte)'M', (byte)'P', (byte)'Y', 1, 0 };
                stream.Write(magic, 0, magic.Length);
                stream.Write(new[] { (byte)(header.Length & 255), (byte)(header.Length >> 8) }, 0, 2);
                stream.Write(Encoding.ASCII.GetBytes(header), 0, header.Length);
                stream.Write(content, 0, content.Length);
            }
        }
    }
}
