using System;
using System.Collections.Generic;
using System.IO;

namespace Tau.Core
{
    /// <summary>
    /// A Tau data set in memory: prompts as embeddings, answers as positions in one vocabulary, targets of both
    /// profiles. Shared by the whole game: never write to its arrays. Thread-safe.
    /// </summary>
    public sealed class TauDataset
    {
        private const string Ending = ".tau";

        private readonly float[][] _vectors;
        private readonly float[][] _tokens;

        internal TauDataset(
            string source,
            string[] skipped,
            string[] answers,
            int trainingAnswers,
            float[][] vectors,
            float[][] tokens,
            TauSplit train,
            TauSplit evaluation)
        {
            Source = source;
            Skipped = skipped;
            Answers = answers;
            TrainingAnswers = trainingAnswers;
            _vectors = vectors;
            _tokens = tokens;
            Train = train;
            Evaluation = evaluation;
        }

        /// <summary>Its file, for messages.</summary>
        public string Source { get; }

        /// <summary>The omitted rows of the original file, with reasons.</summary>
        public IReadOnlyList<string> Skipped { get; }

        /// <summary>The vocabulary: training answers, then those that only held-out rows have.</summary>
        public IReadOnlyList<string> Answers { get; }

        /// <summary>How many of <see cref="Answers"/> occur in training; they come first.</summary>
        public int TrainingAnswers { get; }

        /// <summary>The usable training rows, at least one.</summary>
        public TauSplit Train { get; }

        /// <summary>The usable held-out rows, possibly none.</summary>
        public TauSplit Evaluation { get; }

        /// <summary>
        /// Reads a file written by `tau-train data export-unity`. If you name a Tau JSON file, as for trainers, it
        /// reads the exported file next to it: `set.tau` for `set.json`.
        /// </summary>
        /// <exception cref="TauException">The file does not exist, or it is something else or damaged.</exception>
        public static TauDataset Load(string path)
        {
            var file = path.EndsWith(".json", StringComparison.OrdinalIgnoreCase) ? Beside(path) : path;
            byte[] content;
            try
            {
                content = File.ReadAllBytes(file);
            }
            catch (Exception error) when (
                error is IOException || error is UnauthorizedAccessException || error is ArgumentException)
            {
                throw new TauException($"The data file {file} cannot be read ({error.Message}); check the path.");
            }
            return Read(content, file);
        }

        /// <summary>The data set in the bytes of such a file; <paramref name="source"/> names it in messages.</summary>
        /// <exception cref="TauException">The bytes are something else or damaged.</exception>
        public static TauDataset Read(byte[] content, string source)
        {
            return TauFile.Read(content, source);
        }

        /// <summary>The target output for each answer, [answers][actions].</summary>
        public float[][] Targets(TauProfile profile)
        {
            return profile.ActionSize == TauProfile.EmbeddingSize ? _vectors : _tokens;
        }

        /// <summary>A sentence about omitted rows; null if all are used.</summary>
        public string SkippedSentence()
        {
            return Skipped.Count == 0 ? null : FormattableString.Invariant(
                $"{Source} was made from a file with {Skipped.Count} invalid rows (the first: {Skipped[0]}), which ")
                + "are omitted; run `tau-train data audit` to see all of them.";
        }

        private static string Beside(string json)
        {
            var file = Path.ChangeExtension(json, Ending);
            return File.Exists(file) ? file : throw new TauException(
                $"Unity reads {file} instead of {json}, but it does not exist; make it with "
                + $"`tau-train data export-unity {json} --output {file}`.");
        }
    }
}
