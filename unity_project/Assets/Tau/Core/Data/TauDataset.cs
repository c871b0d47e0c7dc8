using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;

namespace Tau.Core
{
    /// <summary>
    /// A Tau data set in memory: prompts as embeddings, answers as positions in one vocabulary. Loaded once and shared
    /// by everyone in the process, never written to; every lookup goes through a hash table. Safe for any thread.
    /// </summary>
    public sealed class TauDataset
    {
        private static int _parses;

        private readonly VectorTable _table;
        private readonly Dictionary<int, float[][]> _targets = new Dictionary<int, float[][]>();

        internal TauDataset(
            string source,
            VectorTable table,
            string[] answers,
            int trainingAnswers,
            TauSplit train,
            TauSplit evaluation,
            IReadOnlyList<Problem> skipped)
        {
            Source = source;
            _table = table;
            Answers = Array.AsReadOnly(answers);
            AnswerVectors = Array.ConvertAll(answers, table.Vector);
            TrainingAnswers = trainingAnswers;
            Train = train;
            Evaluation = evaluation;
            Skipped = skipped;
        }

        /// <summary>How many data sets were parsed since the process began.</summary>
        public static int Parses => Volatile.Read(ref _parses);

        /// <summary>The file it came from, for messages.</summary>
        public string Source { get; }

        /// <summary>Name of the text encoder that made the vectors.</summary>
        public string Encoder => _table.Encoder;

        /// <summary>
        /// [K], the vocabulary: training answers in the order of their keys' code points, then those that only
        /// evaluation rows have, in the same order; each as it was first written.
        /// </summary>
        public IReadOnlyList<string> Answers { get; }

        /// <summary>[K][384], unit length.</summary>
        public float[][] AnswerVectors { get; }

        /// <summary>How many of <see cref="Answers"/> occur in training; they come first.</summary>
        public int TrainingAnswers { get; }

        /// <summary>The usable training rows, at least one.</summary>
        public TauSplit Train { get; }

        /// <summary>The usable held-out rows, possibly none.</summary>
        public TauSplit Evaluation { get; }

        /// <summary>Every row that was left out, with its number and the reason.</summary>
        public IReadOnlyList<Problem> Skipped { get; }

        /// <summary>
        /// The data set in the Tau JSON file <paramref name="jsonPath"/> with the vectors beside it
        /// (`set.json`: `set.vectors.npz`). Rows that are malformed, repeat a prompt or have no embedding are skipped
        /// and listed. While both files are unchanged they are parsed once per process.
        /// </summary>
        /// <exception cref="TauException">
        /// The file cannot be read, its vectors are damaged, or no training row is left.
        /// </exception>
        public static TauDataset Load(string jsonPath)
        {
            return TauDatasetFiles.Load(jsonPath);
        }

        /// <summary>The data set in two open streams, which are read to their end and not closed. Not shared.</summary>
        /// <param name="json">Tau JSON in UTF-8.</param>
        /// <param name="vectorsNpz">The archive of embeddings; null stands for an empty one.</param>
        /// <param name="source">Names the file in messages.</param>
        /// <exception cref="TauException">See <see cref="Load"/>.</exception>
        public static TauDataset Read(Stream json, Stream vectorsNpz, string source)
        {
            return Parse(json, source, () => NpzReader.Read(vectorsNpz, TauDatasetFiles.VectorsPath(source)));
        }

        /// <summary>The split called `train` or `evaluation` (which may be empty).</summary>
        /// <exception cref="TauException">Any other name.</exception>
        public TauSplit Split(string name)
        {
            switch (name)
            {
                case "train":
                    return Train;
                case "evaluation":
                    return Evaluation;
                default:
                    throw new TauException("There is no split `" + name + "`; use `train` or `evaluation`.");
            }
        }

        /// <summary>The embedding of any text in the vectors file, compared by <see cref="TextKey"/>.</summary>
        /// <param name="text">The text.</param>
        /// <param name="vector">[384], unit length, shared: never write to it. Null where there is none.</param>
        public bool TryGetVector(string text, out float[] vector)
        {
            return _table.TryGet(TextKey.Of(text), out vector);
        }

        /// <summary>
        /// One sentence on the rows that were left out, with numbers and the remedy; null if all are used.
        /// </summary>
        public string SkippedSentence()
        {
            return Skipped.Count > 0 ? SkippedRows.Sentence(Source, Skipped) : null;
        }

        /// <summary>Vectors are asked for after the JSON was understood, so that its faults come first.</summary>
        internal static TauDataset Parse(Stream json, string source, Func<VectorTable> vectors)
        {
            Interlocked.Increment(ref _parses);
            var problems = new List<Problem>();
            var sections = TauFileReader.Read(json, source, problems);
            var seen = new HashSet<string>(StringComparer.Ordinal);
            var training = UniquePairs.Of(sections[0], seen, problems, null);
            var evaluation = UniquePairs.Of(
                sections[1], seen, problems, new HashSet<string>(seen, StringComparer.Ordinal));
            return new TauDatasetBuilder(vectors(), source, problems).Build(training, evaluation);
        }

        /// <summary>Targets of one width, worked out once however many threads ask.</summary>
        internal float[][] SharedTargets(int width, Func<float[][]> compute)
        {
            lock (_targets)
            {
                if (!_targets.TryGetValue(width, out var targets))
                {
                    targets = compute();
                    _targets.Add(width, targets);
                }
                return targets;
            }
        }
    }
}
