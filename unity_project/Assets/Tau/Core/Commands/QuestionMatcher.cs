using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>The known question that is used for a typed one.</summary>
    public sealed class QuestionMatch
    {
        internal QuestionMatch(string question, string answer, float[] vector, double score, bool exact)
        {
            Question = question;
            Answer = answer;
            Vector = vector;
            Score = score;
            Exact = exact;
        }

        /// <summary>The known question, as the data set writes it.</summary>
        public string Question { get; }

        /// <summary>The data set's answer to it.</summary>
        public string Answer { get; }

        /// <summary>Its embedding for the policy, 384 numbers; do not change it.</summary>
        public float[] Vector { get; }

        /// <summary>Similarity of both texts, 0 to 1.</summary>
        public double Score { get; }

        /// <summary>
        /// Whether they are the same text. If not, the policy answers <see cref="Question"/> instead, because a game
        /// has no text encoder; tell the user so.
        /// </summary>
        public bool Exact { get; }
    }

    /// <summary>
    /// Finds the known question closest to a typed one: cosine between the counts of their character trigrams (Salton
    /// and McGill, 1983). Case and spaces are ignored.
    /// </summary>
    public sealed class QuestionMatcher
    {
        private readonly List<Known> _known = new List<Known>();

        /// <summary>A matcher over the prompts of both splits.</summary>
        public QuestionMatcher(TauDataset dataset)
        {
            foreach (var split in new[] { dataset.Train, dataset.Evaluation })
            {
                for (var row = 0; row < split.Count; row++)
                {
                    var answer = dataset.Answers[split.AnswerIndex[row]];
                    _known.Add(new Known(split.Questions[row], answer, split.Prompts[row]));
                }
            }
        }

        /// <summary>The same question if it is known, else the most similar one.</summary>
        /// <exception cref="TauException">The question is empty or not similar to any known one.</exception>
        public QuestionMatch Find(string question)
        {
            var key = Key(question);
            var shares = Trigrams(key);
            Known closest = null;
            var best = 0.0;
            foreach (var known in _known)
            {
                if (known.Key == key)
                {
                    return known.Match(1.0, true);
                }
                var score = shares.Sum(share => share.Value * known.Shares.GetValueOrDefault(share.Key));
                if (score > best)
                {
                    best = score;
                    closest = known;
                }
            }
            return closest?.Match(Math.Min(1.0, best), false) ?? throw new TauException(
                $"No known question is similar to `{question.Trim()}`, and a game cannot encode new ones; "
                + $"ask one of the data set's, such as `{_known[0].Question}`.");
        }

        private static string Key(string text)
        {
            return string.Join(" ", text.ToLowerInvariant().Split((char[])null, StringSplitOptions.RemoveEmptyEntries));
        }

        /// <summary>A text's trigrams, with one space before and after it, as a vector of length 1.</summary>
        private static Dictionary<string, double> Trigrams(string key)
        {
            var padded = " " + key + " ";
            var counts = Enumerable.Range(0, padded.Length - 2).GroupBy(start => padded.Substring(start, 3))
                .ToDictionary(group => group.Key, group => (double)group.Count(), StringComparer.Ordinal);
            var length = Math.Sqrt(counts.Values.Sum(count => count * count));
            return counts.ToDictionary(pair => pair.Key, pair => pair.Value / length, StringComparer.Ordinal);
        }

        private sealed class Known
        {
            private readonly string _answer;
            private readonly float[] _vector;

            public Known(string question, string answer, float[] vector)
            {
                Question = question;
                _answer = answer;
                _vector = vector;
                Key = QuestionMatcher.Key(question);
                Shares = Trigrams(Key);
            }

            public string Question { get; }

            public string Key { get; }

            public Dictionary<string, double> Shares { get; }

            public QuestionMatch Match(double score, bool exact)
            {
                return new QuestionMatch(Question, _answer, _vector, score, exact);
            }
        }
    }
}
