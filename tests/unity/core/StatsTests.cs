using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Statistics of all pairs: when they are reported, under which names, and what they are worth.</summary>
    public sealed class StatsTests
    {
        [Test]
        public void AReportComesWithAThousandAnswersAndCoversWholeSteps()
        {
            var stats = new TauStats(GameData.Task());
            for (var step = 0; step < 34; step++)
            {
                Fill(stats, step * 30, 30, 3);
                stats.EndStep();
                Assert.Equal(step == 33, stats.Take().Count > 0, "step " + step);
            }
            Fill(stats, 0, 999, 3);
            stats.EndStep();
            Assert.Equal(0, stats.Take().Count);
            Fill(stats, 0, 1, 3);
            Assert.Equal(0, stats.Take().Count);
            stats.EndStep();
            Assert.Equal(2020f, Value(stats.Take(), "Tau/Decisions"));
        }

        [Test]
        public void KeysAreTheHeadlessScenesAndTwoMore()
        {
            var stats = new TauStats(GameData.Task());
            Fill(stats, 0, 1000, 2);
            stats.EndStep();
            var report = stats.Take();
            Assert.Sequence(
                new[]
                {
                    "Averaged Reward", "Tau/Accuracy", "Tau/Within Threshold", "Tau/Mean Abs Error", "Tau/Decisions",
                    "Tau/Engine Success Rate", "Tau/Engine Aggregated Reward", "Tau/Pair 0/Mean Reward",
                    "Tau/Pair 1/Mean Reward",
                },
                report.Select(stat => stat.Key));
            Assert.True(
                report.All(stat => (stat.Kind == TauStatKind.MostRecent) == (stat.Key == "Tau/Decisions")), "kinds");
        }

        [Test]
        public void ValuesAreMeansOverTheReport()
        {
            var task = GameData.Task();
            var stats = new TauStats(task);
            var answers = Fill(stats, 0, 1000, 3);
            stats.EndStep();
            var report = stats.Take();
            Close(report, "Averaged Reward", answers.Average(answer => answer.Reward));
            Close(report, "Tau/Accuracy", answers.Average(answer => Right(task, answer) ? 1.0 : 0.0));
            var errors = answers.SelectMany(answer => Errors(task, answer)).ToList();
            Close(report, "Tau/Within Threshold", errors.Average(error => error < 0.1f ? 1.0 : 0.0));
            Close(report, "Tau/Mean Abs Error", errors.Average());
            Close(report, "Tau/Engine Success Rate", answers.Average(answer => answer.Success ? 1.0 : 0.0));
            Close(report, "Tau/Engine Aggregated Reward", answers.Average(answer => answer.Aggregated));
            for (var pair = 0; pair < 3; pair++)
            {
                var own = answers.Where(answer => answer.Pair == pair).Average(answer => answer.Reward);
                Close(report, $"Tau/Pair {pair}/Mean Reward", own);
            }
        }

        [Test]
        public void ARoundBeginsWithNoAccuracyAndLosesNothingThatWaitsForAReport()
        {
            var stats = new TauStats(GameData.Task());
            Fill(stats, 0, 999, 1);
            Assert.True(!double.IsNaN(stats.Accuracy(0)), "the first round has an accuracy");
            stats.BeginRound();
            Assert.True(double.IsNaN(stats.Accuracy(0)), "the next one begins without");
            Fill(stats, 999, 1, 1);
            stats.EndStep();
            Assert.Equal(1000f, stats.Take().Single(stat => stat.Key == "Tau/Decisions").Value);
        }

        [Test]
        public void AReportIsGivenOutOnceAndTheNextOneStartsAnew()
        {
            var stats = new TauStats(GameData.Task());
            Fill(stats, 0, 1000, 1, reward: 1.0);
            stats.EndStep();
            Assert.Equal(1f, Value(stats.Take(), "Averaged Reward"));
            Assert.Equal(0, stats.Take().Count);
            Fill(stats, 0, 1000, 1, reward: -0.5);
            stats.EndStep();
            var report = stats.Take();
            Assert.Equal(-0.5f, Value(report, "Averaged Reward"));
            Assert.Equal(-0.5f, Value(report, "Tau/Pair 0/Mean Reward"));
            Assert.Equal(2000f, Value(report, "Tau/Decisions"));
        }

        [Test]
        public void OnlyTheFirstSixtyFourPairsHaveAStatisticAndOnlyThoseThatAnswered()
        {
            var stats = new TauStats(GameData.Task());
            Fill(stats, 0, 1000, 100);
            stats.EndStep();
            Assert.Equal(TauStats.MostPairs, stats.Take().Count(stat => stat.Key.StartsWith("Tau/Pair ")));
            Fill(stats, 0, 1000, 5);
            stats.EndStep();
            Assert.Equal(5, stats.Take().Count(stat => stat.Key.StartsWith("Tau/Pair ")));
        }

        [Test]
        public void AccuracyOfAPairIsTheSameBeforeAndAfterAReport()
        {
            var task = GameData.Task();
            var stats = new TauStats(task);
            Assert.True(double.IsNaN(stats.Accuracy(0)), "nothing was answered");
            var answers = Fill(stats, 0, 400, 2);
            Own(task, answers, stats);
            answers.AddRange(Fill(stats, 400, 700, 2));
            Own(task, answers, stats);
            stats.EndStep();
            Own(task, answers, stats);
            Close(stats.Take(), "Tau/Accuracy", answers.Average(answer => Right(task, answer) ? 1.0 : 0.0));
            answers.AddRange(Fill(stats, 1100, 50, 2));
            Own(task, answers, stats);
        }

        [Test]
        public void AWideProfileIsDecodedToo()
        {
            var task = GameData.Task("tau384");
            var stats = new TauStats(task);
            for (var answer = 0; answer < 1000; answer++)
            {
                stats.Add(0, task.Targets[answer % 4 == 0 ? 3 : answer % 10], answer % 10, 0.0, false, 0.0);
            }
            stats.EndStep();
            var right = Enumerable.Range(0, 1000).Count(answer => answer % 4 != 0 || answer % 10 == 3);
            Close(stats.Take(), "Tau/Accuracy", right / 1000.0);
            Assert.Equal(right / 1000.0, stats.Accuracy(0), 0.0);
        }

        private static void Own(TauTask task, List<Answer> answers, TauStats stats)
        {
            for (var pair = 0; pair < 2; pair++)
            {
                var own = answers.Where(answer => answer.Pair == pair).ToList();
                var right = own.Count(answer => Right(task, answer)) / (double)own.Count;
                Assert.Equal(right, stats.Accuracy(pair), 1e-12, "pair " + pair);
            }
        }

        /// <summary>Adds answers with outputs, rewards and successes that differ.</summary>
        private static List<Answer> Fill(TauStats stats, int first, int count, int pairs, double? reward = null)
        {
            var random = new AgentRandom(first, 0);
            var answers = new List<Answer>();
            for (var number = first; number < first + count; number++)
            {
                var right = random.Next(10);
                var near = stats.Task.Targets[random.NextUniform() < 0.5 ? right : random.Next(10)];
                var output = near.Select(value => value + (float)((random.NextUniform() - 0.5) * 0.3)).ToArray();
                var answer = new Answer
                {
                    Pair = number % pairs, Output = output, Right = right, Success = random.NextUniform() < 0.3,
                    Reward = reward ?? random.NextUniform() - 0.7, Aggregated = random.NextUniform(),
                };
                answers.Add(answer);
                stats.Add(answer.Pair, output, right, answer.Reward, answer.Success, answer.Aggregated);
            }
            return answers;
        }

        private static bool Right(TauTask task, Answer answer)
        {
            return Decoding.Nearest(answer.Output, task.Targets) == answer.Right;
        }

        private static IEnumerable<float> Errors(TauTask task, Answer answer)
        {
            return answer.Output.Select((value, column) => Math.Abs(value - task.Targets[answer.Right][column]));
        }

        private static float Value(IEnumerable<TauStat> report, string key)
        {
            return report.Single(stat => stat.Key == key).Value;
        }

        private static void Close(IEnumerable<TauStat> report, string key, double expected)
        {
            Assert.Equal(expected, Value(report, key), 1e-6, key);
        }

        private sealed class Answer
        {
            public int Pair;
            public float[] Output;
            public int Right;
            public double Reward;
            public bool Success;
            public double Aggregated;
        }
    }
}
