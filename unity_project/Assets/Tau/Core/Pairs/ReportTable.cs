using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace Tau.Core
{
    /// <summary>A central report as a table of plain text.</summary>
    internal static class ReportTable
    {
        private static readonly string[] Head =
        {
            "pair", "state", "decisions", "episodes", "mean reward", "success", "aggregated", "accuracy", "error",
        };

        private static readonly int[] LeftAligned = { 1, 8 };

        /// <summary>The report's lines, each ended by a line feed but the last.</summary>
        public static string Of(CentralReport report)
        {
            var rows = new List<string[]> { Head };
            rows.AddRange(report.Pairs.Select(Row));
            rows.Add(Totals(report));
            var widths = Head.Select((_, column) => rows.Max(row => row[column].Length)).ToArray();
            var text = new StringBuilder();
            foreach (var row in rows)
            {
                text.Append(Line(row, widths)).Append('\n');
            }
            text.Append("peak concurrency ").Append(Whole(report.PeakConcurrency)).Append("; ").Append(States(report));
            return text.Append(report.Cancelled ? "; the run was cancelled" : string.Empty).ToString();
        }

        private static string[] Row(PairMetrics pair)
        {
            return Cells(
                Whole(pair.Id), pair.State.ToString(), pair.Decisions, pair.Episodes, pair.MeanReward,
                pair.SuccessRate, pair.AggregatedReward, pair.Accuracy, pair.Error);
        }

        private static string[] Totals(CentralReport report)
        {
            return Cells(
                "all", string.Empty, report.Decisions, report.Episodes, report.MeanReward,
                report.SuccessRate, report.AggregatedReward, report.Accuracy, null);
        }

        private static string States(CentralReport report)
        {
            var counts = report.Pairs.GroupBy(pair => pair.State).OrderBy(group => group.Key)
                .Select(group => FormattableString.Invariant($"{group.Count()} {group.Key}"));
            return string.Join(", ", counts);
        }

        private static string[] Cells(
            string id, string state, long decisions, long episodes, double reward, double success, double aggregated,
            double accuracy, string error)
        {
            return new[]
            {
                id, state, Whole(decisions), Whole(episodes), Number(reward, "+0.000;-0.000;0.000"),
                Number(success, "0.0 %"), Number(aggregated, "0.000"), Number(accuracy, "0.0 %"),
                error ?? string.Empty,
            };
        }

        private static string Line(string[] row, int[] widths)
        {
            var cells = row.Select((cell, column) => Array.IndexOf(LeftAligned, column) >= 0
                ? cell.PadRight(widths[column])
                : cell.PadLeft(widths[column]));
            return string.Join("  ", cells).TrimEnd();
        }

        private static string Whole(long value)
        {
            return value.ToString(CultureInfo.InvariantCulture);
        }

        private static string Number(double value, string form)
        {
            return double.IsNaN(value) ? "-" : value.ToString(form, CultureInfo.InvariantCulture);
        }
    }
}
