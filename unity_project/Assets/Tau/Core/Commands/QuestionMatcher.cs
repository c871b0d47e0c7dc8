using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Finds the known question closest to a typed one: cosine between the counts of their character trigrams (Salton
    /// and McGill, 1983), worked out once for every question of a data set. Not thread-safe.
    /// </summary>
    public sealed class QuestionMatcher
    {
        private readonly TauDataset _dataset;
        private readonly List<Known> _known = new List<Known>();
        private readonly Dictionary<string, int> _byKey = new Dictionary<string, int>(StringComparer.Ordinal);
        private readonly Dictionary<string, List<Share>> _shares =
            new Dictionary<string, List<Share>>(StringComparer.Ordinal);

        /// <summary>A matcher over the prompts of both splits.</summary>
        public QuestionMatcher(TauDataset dataset)
        {
            _dataset = dataset ?? throw new ArgumentNullException(nameof(dataset));
            Add(dataset.Train);
            Add(dataset.Evaluation);
        }

        /// <summary>The same question where it is known, else the one that is written most alike.</summary>
        /// <exception cref="TauException">The question is empty or like none that is known.</exception>
        public QuestionMatch Find(string question)
        {
            var key = TextKey.Of(question ?? throw new ArgumentNullException(nameof(question)));
            if (key.Length == 0)
            {
                throw new TauException("There is no question; type one.");
            }
            if (_byKey.TryGetValue(key, out var position))
            {
                return Match(position, 1.0, true);
            }
            if (_dataset.TryGetVector(question, out var vector))
            {
                return new QuestionMatch(question.Trim(), null, vector, 1.0, true);
            }
            return Closest(question, key);
        }

        private QuestionMatch Closest(string question, string key)
        {
            var scores = new double[_known.Count];
            foreach (var trigram in Weights(key))
            {
                if (_shares.TryGetValue(trigram.Key, out var shares))
                {
                    shares.ForEach(share => scores[share.Position] += share.Weight * trigram.Value);
                }
            }
            var best = Array.IndexOf(scores, scores.Max());
            if (scores[best] <= 0.0)
            {
                throw new TauException(
                    $"No known question is like `{question.Trim()}`, and a game has no text encoder for new ones; "
                    + $"ask one of the data set's, such as `{_known[0].Question}`.");
            }
            return Match(best, Math.Min(1.0, scores[best]), false);
        }

        private QuestionMatch Match(int position, double score, bool exact)
        {
            var known = _known[position];
            return new QuestionMatch(known.Question, known.Answer, known.Vector, score, exact);
        }

        private void Add(TauSplit split)
        {
            for (var row = 0; row < split.Count; row++)
            {
                var position = _known.Count;
                var key = TextKey.Of(split.PromptText[row]);
                _known.Add(new Known(split.PromptText[row], split.AnswerText[row], split.Prompts[row]));
                _byKey[key] = position;
                foreach (var trigram in Weights(key))
                {
                    if (!_shares.TryGetValue(trigram.Key, out var shares))
                    {
                        shares = new List<Share>();
                        _shares.Add(trigram.Key, shares);
                    }
                    shares.Add(new Share(position, trigram.Value));
                }
            }
        }

        /// <summary>A text's trigrams, with one blank before and behind it, as a vector of length 1.</summary>
        private static Dictionary<string, double> Weights(string key)
        {
            var padded = " " + key + " ";
            var counts = new Dictionary<string, double>(StringComparer.Ordinal);
            for (var start = 0; start + 3 <= padded.Length; start++)
            {
                var trigram = padded.Substring(start, 3);
                counts[trigram] = counts.TryGetValue(trigram, out var count) ? count + 1.0 : 1.0;
            }
            var length = Math.Sqrt(counts.Values.Sum(count => count * count));
            return counts.ToDictionary(pair => pair.Key, pair => pair.Value / length, StringComparer.Ordinal);
        }

        private readonly struct Share
        {
            public Share(int position, double weight)
            {
                Position = position;
                Weight = weight;
            }

            public readonly int Position;
            public readonly double Weight;
        }

        private sealed class Known
        {
            public Known(string question, string answer, float[] vector)
            {
                Question = question;
                Answer = answer;
                Vector = vector;
            }

            public readonly string Question;
            public readonly string Answer;
            public readonly float[] Vector;
        }
    }
}
