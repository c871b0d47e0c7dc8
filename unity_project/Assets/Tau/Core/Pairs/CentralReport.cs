using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;

namespace Tau.Core
{
    /// <summary>
    /// What all pairs have done together. Means are weighted by the pairs' decisions; NaN where nothing was counted.
    /// </summary>
    public sealed class CentralReport
    {
        /// <summary>A report over these pairs.</summary>
        /// <param name="pairs">Metrics by pair.</param>
        /// <param name="peakConcurrency">Most pairs that ran at the same time.</param>
        /// <param name="cancelled">Whether the run was cancelled before its pairs had ended.</param>
        public CentralReport(IReadOnlyList<PairMetrics> pairs, int peakConcurrency, bool cancelled)
        {
            Pairs = pairs ?? throw new ArgumentNullException(nameof(pairs));
            PeakConcurrency = peakConcurrency;
            Cancelled = cancelled;
            Decisions = pairs.Sum(pair => pair.Decisions);
            Episodes = pairs.Sum(pair => pair.Episodes);
            MeanReward = Mean(pairs, pair => pair.MeanReward);
            SuccessRate = Mean(pairs, pair => pair.SuccessRate);
            AggregatedReward = Mean(pairs, pair => pair.AggregatedReward);
            Accuracy = Mean(pairs, pair => pair.Accuracy);
        }

        /// <summary>Metrics of each pair, by id.</summary>
        public IReadOnlyList<PairMetrics> Pairs { get; }

        /// <summary>Answered decisions of all pairs.</summary>
        public long Decisions { get; }

        /// <summary>Ended episodes of all pairs.</summary>
        public long Episodes { get; }

        /// <summary>Mean reward of a decision.</summary>
        public double MeanReward { get; }

        /// <summary>Share of decisions with every component within the threshold, 0 to 1.</summary>
        public double SuccessRate { get; }

        /// <summary>Mean of the binary reward, aggregated over each pair's window.</summary>
        public double AggregatedReward { get; }

        /// <summary>Share of decisions whose nearest answer is the right one, 0 to 1. Reward is not accuracy.</summary>
        public double Accuracy { get; }

        /// <summary>Most pairs that ran at the same time.</summary>
        public int PeakConcurrency { get; }

        /// <summary>Whether the run was cancelled before its pairs had ended.</summary>
        public bool Cancelled { get; }

        /// <summary>A table for a console: a line for each pair, one for all, and the peak concurrency.</summary>
        public string ToText()
        {
            return ReportTable.Of(this);
        }

        /// <summary>The same as one JSON object; null where nothing was counted.</summary>
        public string ToJson()
        {
            var text = new StringBuilder("{\"pairs\": [");
            for (var index = 0; index < Pairs.Count; index++)
            {
                var pair = Pairs[index];
                text.Append(index == 0 ? "{" : ", {").Append("\"id\": ").Append(JsonText.Of(pair.Id));
                text.Append(", \"state\": ").Append(JsonText.Of(pair.State.ToString()));
                AppendCounts(text.Append(", "), pair.Decisions, pair.Episodes);
                AppendMeans(text, pair.MeanReward, pair.SuccessRate, pair.AggregatedReward, pair.Accuracy);
                text.Append(", \"error\": ").Append(JsonText.Of(pair.Error)).Append('}');
            }
            AppendCounts(text.Append("], "), Decisions, Episodes);
            AppendMeans(text, MeanReward, SuccessRate, AggregatedReward, Accuracy);
            text.Append(", \"peak_concurrency\": ").Append(JsonText.Of(PeakConcurrency));
            return text.Append(", \"cancelled\": ").Append(Cancelled ? "true}" : "false}").ToString();
        }

        private static void AppendCounts(StringBuilder text, long decisions, long episodes)
        {
            text.Append("\"decisions\": ").Append(JsonText.Of(decisions));
            text.Append(", \"episodes\": ").Append(JsonText.Of(episodes));
        }

        private static void AppendMeans(
            StringBuilder text, double reward, double success, double aggregated, double accuracy)
        {
            text.Append(", \"mean_reward\": ").Append(JsonText.Of(reward));
            text.Append(", \"success_rate\": ").Append(JsonText.Of(success));
            text.Append(", \"aggregated_reward\": ").Append(JsonText.Of(aggregated));
            text.Append(", \"accuracy\": ").Append(JsonText.Of(accuracy));
        }

        private static double Mean(IReadOnlyList<PairMetrics> pairs, Func<PairMetrics, double> value)
        {
            var sum = 0.0;
            var count = 0L;
            foreach (var pair in pairs)
            {
                if (pair.Decisions > 0 && !double.IsNaN(value(pair)))
                {
                    sum += value(pair) * pair.Decisions;
                    count += pair.Decisions;
                }
            }
            return count > 0 ? sum / count : double.NaN;
        }
    }
}
