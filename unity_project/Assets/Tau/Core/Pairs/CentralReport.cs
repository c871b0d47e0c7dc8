using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Results of all pairs together. Means are weighted by the pairs' decisions; NaN if nothing was counted.
    /// </summary>
    public sealed class CentralReport
    {
        private static readonly string[] Head =
        {
            "pair", "state", "decisions", "episodes", "mean reward", "success", "aggregated", "accuracy", "error",
        };

        /// <summary>A report over these pairs.</summary>
        /// <param name="pairs">Metrics by pair.</param>
        /// <param name="peakConcurrency">Maximum number of pairs that ran at the same time.</param>
        /// <param name="cancelled">Whether the run was cancelled before its pairs ended.</param>
        public CentralReport(IReadOnlyList<PairMetrics> pairs, int peakConcurrency, bool cancelled)
        {
            Pairs = pairs;
            PeakConcurrency = peakConcurrency;
            Cancelled = cancelled;
            All = new PairMetrics
            {
                Decisions = pairs.Sum(pair => pair.Decisions),
                Episodes = pairs.Sum(pair => pair.Episodes),
                MeanReward = Mean(pair => pair.MeanReward),
                SuccessRate = Mean(pair => pair.SuccessRate),
                AggregatedReward = Mean(pair => pair.AggregatedReward),
                Accuracy = Mean(pair => pair.Accuracy),
            };
        }

        /// <summary>Metrics of each pair, by id.</summary>
        public IReadOnlyList<PairMetrics> Pairs { get; }

        /// <summary>Sums and means over all pairs; ignore its id and state.</summary>
        public PairMetrics All { get; }

        /// <summary>Maximum number of pairs that ran at the same time.</summary>
        public int PeakConcurrency { get; }

        /// <summary>Whether the run was cancelled before its pairs ended.</summary>
        public bool Cancelled { get; }

        /// <summary>A table for a console: a line for each pair, one for all, and the peak concurrency.</summary>
        public string ToText()
        {
            var rows = new List<string[]> { Head };
            rows.AddRange(Pairs.Select(pair => Row(Text(pair.Id), pair.State.ToString(), pair)));
            rows.Add(Row("all", string.Empty, All));
            var widths = Head.Select((_, column) => rows.Max(row => row[column].Length)).ToArray();
            var states = Pairs.GroupBy(pair => pair.State).OrderBy(group => group.Key)
                .Select(group => Text(group.Count()) + " " + group.Key);
            return string.Join("\n", rows.Select(row => Line(row, widths)))
                + $"\npeak concurrency {Text(PeakConcurrency)}; {string.Join(", ", states)}"
                + (Cancelled ? "; the run was cancelled" : string.Empty);
        }

        /// <summary>A number in the same form for every locale; a dash if nothing was counted.</summary>
        internal static string Text(double value, string form = "0")
        {
            return double.IsNaN(value) ? "-" : value.ToString(form, CultureInfo.InvariantCulture);
        }

        private static string[] Row(string id, string state, PairMetrics pair)
        {
            return new[]
            {
                id, state, Text(pair.Decisions), Text(pair.Episodes), Text(pair.MeanReward, "+0.000;-0.000;0.000"),
                Text(pair.SuccessRate, "0.0 %"), Text(pair.AggregatedReward, "0.000"), Text(pair.Accuracy, "0.0 %"),
                pair.Error ?? string.Empty,
            };
        }

        /// <summary>Aligns cells in columns: numbers right, state and error left.</summary>
        private static string Line(string[] row, int[] widths)
        {
            var cells = row.Select((cell, column) =>
                column == 1 || column == 8 ? cell.PadRight(widths[column]) : cell.PadLeft(widths[column]));
            return string.Join("  ", cells).TrimEnd();
        }

        private double Mean(Func<PairMetrics, double> value)
        {
            var counted = Pairs.Where(pair => pair.Decisions > 0 && !double.IsNaN(value(pair))).ToArray();
            var decisions = counted.Sum(pair => pair.Decisions);
            return decisions > 0 ? counted.Sum(pair => value(pair) * pair.Decisions) / decisions : double.NaN;
        }
    }
}
