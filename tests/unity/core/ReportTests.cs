using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Threading;

namespace Tau.Core.Tests
{
    /// <summary>The central report: its means, its table, its JSON.</summary>
    public sealed class ReportTests
    {
        private static readonly PairMetrics[] Pairs =
        {
            new PairMetrics(0, PairState.Completed, 300, 2, 0.5, 0.25, 0.2, 0.75, null),
            new PairMetrics(1, PairState.Cancelled, 100, 1, -0.5, 0.75, 1.0, double.NaN, null),
            Failed("It \"broke\"\n\\."),
        };

        [Test]
        public void MeansAreWeightedByDecisions()
        {
            var report = new CentralReport(Pairs, 2, false);
            Assert.Equal(400L, report.Decisions);
            Assert.Equal(3L, report.Episodes);
            Assert.Equal(0.25, report.MeanReward, 1e-12);
            Assert.Equal(0.375, report.SuccessRate, 1e-12);
            Assert.Equal(0.4, report.AggregatedReward, 1e-12);
            Assert.Equal(0.75, report.Accuracy, 1e-12, "a pair without accuracy must not count as wrong");
        }

        [Test]
        public void TheTableIsAlignedAndHasTotals()
        {
            var expected = new[]
            {
                "pair  state      decisions  episodes  mean reward  success  aggregated  accuracy  error",
                "   0  Completed        300         2       +0.500   25.0 %       0.200    75.0 %",
                "   1  Cancelled        100         1       -0.500   75.0 %       1.000         -",
                "   2  Failed             0         0            -        -           -         -  It broke.",
                " all                   400         3       +0.250   37.5 %       0.400    75.0 %",
                "peak concurrency 2; 1 Completed, 1 Failed, 1 Cancelled; the run was cancelled",
            };
            var pairs = Pairs.Take(2).Append(Failed("It broke.")).ToArray();
            Assert.Sequence(expected, new CentralReport(pairs, 2, true).ToText().Split('\n'));
        }

        [Test]
        public void JsonReadsBackWithNullWhereNothingWasCounted()
        {
            var report = Parse(new CentralReport(Pairs, 2, true));
            Assert.Equal(400.0, report["decisions"]);
            Assert.Equal(3.0, report["episodes"]);
            Assert.Equal(0.25, report["mean_reward"]);
            Assert.Equal(0.375, report["success_rate"]);
            Assert.Equal(0.4, (double)report["aggregated_reward"], 1e-12);
            Assert.Equal(0.75, report["accuracy"]);
            Assert.Equal(2.0, report["peak_concurrency"]);
            Assert.Equal(true, report["cancelled"]);
            var pairs = ((List<object>)report["pairs"]).Cast<Dictionary<string, object>>().ToList();
            Assert.Sequence(new object[] { 0.0, 1.0, 2.0 }, pairs.Select(pair => pair["id"]));
            Assert.Sequence(new object[] { "Completed", "Cancelled", "Failed" }, pairs.Select(pair => pair["state"]));
            Assert.Equal(-0.5, pairs[1]["mean_reward"]);
            Assert.Equal(null, pairs[1]["accuracy"]);
            Assert.Equal(null, pairs[2]["mean_reward"]);
            Assert.Equal(null, pairs[0]["error"]);
            Assert.Equal("It \"broke\"\n\\.", pairs[2]["error"]);
        }

        [Test]
        public void AReportBeforeTheFirstDecisionIsWhole()
        {
            var idle = new[] { Pairs[2] };
            var report = Parse(new CentralReport(idle, 0, false));
            Assert.Equal(null, report["mean_reward"]);
            Assert.Equal(0.0, report["decisions"]);
            Assert.Contains("peak concurrency 0", new CentralReport(idle, 0, false).ToText());
        }

        [Test]
        public void NumbersDoNotDependOnTheCulture()
        {
            var culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();
            culture.NumberFormat.NumberDecimalSeparator = ",";
            culture.NumberFormat.NegativeSign = "~";
            culture.NumberFormat.PercentSymbol = "pc";
            var before = Thread.CurrentThread.CurrentCulture;
            var report = new CentralReport(Pairs, 2, false);
            var expected = report.ToText() + report.ToJson();
            Thread.CurrentThread.CurrentCulture = culture;
            try
            {
                Assert.Equal(expected, report.ToText() + report.ToJson());
            }
            finally
            {
                Thread.CurrentThread.CurrentCulture = before;
            }
        }

        private static PairMetrics Failed(string error)
        {
            const double None = double.NaN;
            return new PairMetrics(2, PairState.Failed, 0, 0, None, None, None, None, error);
        }

        private static Dictionary<string, object> Parse(CentralReport report)
        {
            return (Dictionary<string, object>)Json.Parse(report.ToJson());
        }
    }
}
