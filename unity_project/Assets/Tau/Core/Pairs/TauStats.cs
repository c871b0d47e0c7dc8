using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Statistics of all pairs: one report for every thousand rewards, as in Tau's own log. Answers are stored until
    /// then and decoded together, while no action is pending. If a pair's accuracy is needed earlier, the stored
    /// answers are decoded then; nothing is decoded twice. Not thread-safe.
    /// </summary>
    public sealed class TauStats
    {
        /// <summary>Rewards in one report.</summary>
        public const int Interval = 1000;

        /// <summary>Maximum number of pairs with their own statistics: thousands of keys would overload a
        /// dashboard.</summary>
        public const int MostPairs = 64;

        private readonly List<Entry> _entries = new List<Entry>();
        private readonly Dictionary<int, (long Right, long Decoded)> _accuracy =
            new Dictionary<int, (long Right, long Decoded)>();
        private int _decoded;
        private long _decisions;
        private IReadOnlyList<TauStat> _ready = Array.Empty<TauStat>();

        /// <summary>Statistics of this task's answers.</summary>
        public TauStats(TauTask task)
        {
            Task = task ?? throw new ArgumentNullException(nameof(task));
        }

        /// <summary>The task.</summary>
        public TauTask Task { get; }

        /// <summary>Records an answer.</summary>
        /// <param name="pair">The pair's number.</param>
        /// <param name="output">The action, clipped and finite; copied.</param>
        /// <param name="answer">Position of the right answer.</param>
        /// <param name="reward">Its reward.</param>
        /// <param name="success">Its binary reward.</param>
        /// <param name="aggregated">The binary reward over the pair's window.</param>
        public void Add(int pair, float[] output, int answer, double reward, bool success, double aggregated)
        {
            _entries.Add(new Entry
            {
                Pair = pair,
                Output = (float[])output.Clone(),
                Answer = answer,
                Reward = reward,
                Success = success,
                Aggregated = aggregated,
            });
        }

        /// <summary>
        /// Call it once in each step of the game, after its answers: makes a report after a thousand rewards. So a
        /// report covers only whole steps, and treats every pair equally.
        /// </summary>
        public void EndStep()
        {
            if (_entries.Count >= Interval)
            {
                Decode();
                _decisions += _entries.Count;
                _ready = Report();
                _entries.Clear();
                _decoded = 0;
            }
        }

        /// <summary>The last report, returned once; empty if there is no new one.</summary>
        public IReadOnlyList<TauStat> Take()
        {
            var ready = _ready;
            _ready = Array.Empty<TauStat>();
            return ready;
        }

        /// <summary>
        /// Share of a pair's answers whose nearest target is the right answer's; NaN if it has not answered.
        /// </summary>
        public double Accuracy(int pair)
        {
            Decode();
            return _accuracy.TryGetValue(pair, out var counts) ? (double)counts.Right / counts.Decoded : double.NaN;
        }

        /// <summary>
        /// New pairs use the numbers of the old ones, so their accuracy is reset. Values for the next report are kept.
        /// </summary>
        public void BeginRound()
        {
            Decode();
            _accuracy.Clear();
        }

        private void Decode()
        {
            for (; _decoded < _entries.Count; _decoded++)
            {
                var entry = _entries[_decoded];
                entry.Right = Decoding.Nearest(entry.Output, Task.Targets, Task.Targets.Length) == entry.Answer;
                _accuracy.TryGetValue(entry.Pair, out var counts);
                _accuracy[entry.Pair] = (counts.Right + (entry.Right ? 1 : 0), counts.Decoded + 1);
            }
        }

        private List<TauStat> Report()
        {
            var errors = _entries.SelectMany(Errors).ToArray();
            var stats = new List<TauStat>
            {
                new TauStat("Averaged Reward", _entries.Average(entry => entry.Reward)),
                new TauStat("Tau/Accuracy", _entries.Average(entry => entry.Right ? 1.0 : 0.0)),
                new TauStat("Tau/Within Threshold", errors.Average(error => error < Task.Rules.Threshold ? 1.0 : 0.0)),
                new TauStat("Tau/Mean Abs Error", errors.Average()),
                new TauStat("Tau/Decisions", _decisions, true),
                new TauStat("Tau/Engine Success Rate", _entries.Average(entry => entry.Success ? 1.0 : 0.0)),
                new TauStat("Tau/Engine Aggregated Reward", _entries.Average(entry => entry.Aggregated)),
            };
            stats.AddRange(_entries.Where(entry => entry.Pair < MostPairs).GroupBy(entry => entry.Pair)
                .OrderBy(pair => pair.Key).Select(pair => new TauStat(
                    FormattableString.Invariant($"Tau/Pair {pair.Key}/Mean Reward"),
                    pair.Average(entry => entry.Reward))));
            return stats;
        }

        private IEnumerable<double> Errors(Entry entry)
        {
            return entry.Output.Zip(Task.Targets[entry.Answer], (output, target) => Math.Abs((double)target - output));
        }

        private sealed class Entry
        {
            public int Pair;
            public float[] Output;
            public int Answer;
            public double Reward;
            public double Aggregated;
            public bool Success;
            public bool Right;
        }
    }
}
