using System;
using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>
    /// Statistics of all pairs: one report for every thousand rewards, as in Tau's own log. Answers are kept until then
    /// and decoded together with nobody waiting for an action; pairs that are asked for their accuracy earlier decode
    /// what is there, and nothing is decoded twice. Not thread-safe.
    /// </summary>
    public sealed class TauStats
    {
        /// <summary>Rewards in one report.</summary>
        public const int Interval = 1000;

        /// <summary>Pairs with a statistic of their own: thousands of keys would drown a dashboard.</summary>
        public const int MostPairs = 64;

        private static readonly TauStat[] Nothing = new TauStat[0];

        private readonly List<Entry> _entries = new List<Entry>();
        private readonly SortedDictionary<int, PairStats> _pairs = new SortedDictionary<int, PairStats>();
        private int _count;
        private int _decoded;
        private long _decisions;
        private IReadOnlyList<TauStat> _ready = Nothing;

        /// <summary>Statistics of this task's answers.</summary>
        public TauStats(TauTask task)
        {
            Task = task ?? throw new ArgumentNullException(nameof(task));
        }

        /// <summary>The task that was given.</summary>
        public TauTask Task { get; }

        /// <summary>Takes note of an answer.</summary>
        /// <param name="pair">The pair's number.</param>
        /// <param name="output">The action, clipped and finite; copied.</param>
        /// <param name="answer">Position of the right answer.</param>
        /// <param name="reward">What it earned.</param>
        /// <param name="success">Its binary reward.</param>
        /// <param name="aggregated">The binary reward over the pair's window.</param>
        public void Add(int pair, float[] output, int answer, double reward, bool success, double aggregated)
        {
            if (_count == _entries.Count)
            {
                _entries.Add(new Entry(Task.Profile.ActionSize));
            }
            var entry = _entries[_count++];
            Array.Copy(output, entry.Output, entry.Output.Length);
            entry.Pair = PairOf(pair);
            entry.Answer = answer;
            entry.Reward = reward;
            entry.Success = success;
            entry.Aggregated = aggregated;
        }

        /// <summary>
        /// To be called once in each step of the game, after its answers: makes a report where a thousand rewards are
        /// together. So a report covers whole steps only, and every pair alike.
        /// </summary>
        public void EndStep()
        {
            if (_count >= Interval)
            {
                Report();
            }
        }

        /// <summary>The last report, each given out once; empty: there is no new one.</summary>
        public IReadOnlyList<TauStat> Take()
        {
            var ready = _ready;
            _ready = Nothing;
            return ready;
        }

        /// <summary>
        /// Share of all answers of a pair whose nearest target is the right answer's; NaN: it has not answered.
        /// </summary>
        public double Accuracy(int pair)
        {
            Decode();
            return _pairs.TryGetValue(pair, out var found) ? found.Accuracy : double.NaN;
        }

        /// <summary>
        /// New pairs take the numbers of the old ones: their accuracy starts anew. What waits for a report goes on.
        /// </summary>
        public void BeginRound()
        {
            Decode();
            foreach (var pair in _pairs.Values)
            {
                pair.Begin();
            }
        }

        private PairStats PairOf(int id)
        {
            if (!_pairs.TryGetValue(id, out var pair))
            {
                pair = new PairStats(id);
                _pairs.Add(id, pair);
            }
            return pair;
        }

        private void Decode()
        {
            for (; _decoded < _count; _decoded++)
            {
                var entry = _entries[_decoded];
                entry.Right = Decoding.Nearest(entry.Output, Task.Targets) == entry.Answer;
                entry.Pair.AddDecoded(entry.Right);
            }
        }

        private void Report()
        {
            Decode();
            var sums = Sum();
            _decisions += _count;
            var stats = new List<TauStat>
            {
                TauStat.Mean("Averaged Reward", PairwiseSum.Of(new Rewards(_entries), 0, _count), _count),
                TauStat.Mean("Tau/Accuracy", sums.Right, _count),
                TauStat.Mean("Tau/Within Threshold", sums.Within, sums.Components),
                TauStat.Mean("Tau/Mean Abs Error", sums.Error, sums.Components),
                new TauStat("Tau/Decisions", _decisions, TauStatKind.MostRecent),
                TauStat.Mean("Tau/Engine Success Rate", sums.Success, _count),
                TauStat.Mean("Tau/Engine Aggregated Reward", sums.Aggregated, _count),
            };
            foreach (var pair in _pairs.Values)
            {
                pair.Report(stats);
            }
            _ready = stats;
            _count = 0;
            _decoded = 0;
        }

        private Sums Sum()
        {
            var sums = default(Sums);
            var threshold = (float)Task.Rules.Threshold;
            for (var index = 0; index < _count; index++)
            {
                var entry = _entries[index];
                sums.Right += entry.Right ? 1 : 0;
                sums.Success += entry.Success ? 1 : 0;
                sums.Aggregated += entry.Aggregated;
                entry.Pair.AddReward(entry.Reward);
                sums.AddErrors(entry.Output, Task.Targets[entry.Answer], threshold);
            }
            return sums;
        }

        private struct Sums
        {
            public long Right;
            public long Success;
            public double Aggregated;
            public long Within;
            public double Error;
            public long Components;

            /// <summary>Errors in single precision, as the headless engine compares them.</summary>
            public void AddErrors(float[] output, float[] target, float threshold)
            {
                for (var column = 0; column < output.Length; column++)
                {
                    var error = Math.Abs((float)(output[column] - target[column]));
                    Within += error < threshold ? 1 : 0;
                    Error += error;
                }
                Components += output.Length;
            }
        }

        /// <summary>Rewards in the order of steps and pairs, to be added as numpy adds them.</summary>
        private readonly struct Rewards : ITerms
        {
            private readonly List<Entry> _entries;

            public Rewards(List<Entry> entries)
            {
                _entries = entries;
            }

            public double At(int index)
            {
                return _entries[index].Reward;
            }
        }

        private sealed class Entry
        {
            public Entry(int actions)
            {
                Output = new float[actions];
            }

            public readonly float[] Output;
            public PairStats Pair;
            public int Answer;
            public double Reward;
            public double Aggregated;
            public bool Success;
            public bool Right;
        }
    }
}
