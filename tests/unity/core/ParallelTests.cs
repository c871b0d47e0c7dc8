using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Threading;

namespace Tau.Core.Tests
{
    /// <summary>N pairs under M slots, their statistics, and the report of all.</summary>
    public sealed class ParallelTests
    {
        [Test]
        public void NoMoreThanMPairsRunAndMDo()
        {
            var game = new ParallelGame(9, 3, id => new FakeAgent(), quota: 0);
            var most = 0;
            game.Watch((id, call) => most = Math.Max(most, game.Agents.Count(agent => agent.Active)));
            game.Begin();
            for (var step = 0; step < 100; step++)
            {
                game.Step(1);
                Assert.Equal(game.Agents.Count(agent => agent.Active), game.Trainer.Running);
                var open = game.Agents.Where(each => each.Trainer.State == PairState.Training).ToList();
                open.Skip(step % 2).ToList().ForEach(each => each.Answer(0.2f));
                game.Agents.Where(each => each.Rewards.Count >= 6).ToList().ForEach(each => each.Trainer.Stop());
            }
            Assert.Equal(3, most);
            Assert.Equal(3, game.Report().PeakConcurrency);
            Assert.Equal(0, game.Trainer.Running);
            Assert.True(game.Agents.All(agent => agent.Rewards.Count >= 6), "every pair had its turn");
        }

        [Test]
        public void ASlotIsHeldForAPairsWholeRunAndPassedOnById()
        {
            var game = new ParallelGame(3, 1, _ => FakeAgent.Constant(0.1f), quota: 8);
            var order = new List<int>();
            game.Watch((id, call) => order.Add(id));
            game.Begin(24);
            Assert.Sequence(Enumerable.Range(0, 3).SelectMany(id => Enumerable.Repeat(id, 19)), order, "runs in a row");
            Assert.Equal(24L, game.Report().All.Decisions);
        }

        [Test]
        public void TheNextPairStartsWithTheNextStepAndNotInsideOfAnAnswer()
        {
            var game = new ParallelGame(2, 1, _ => FakeAgent.Constant(0f), quota: 1).Begin(1);
            Assert.True(!game.Agents[0].Active && !game.Agents[1].Active, "it began inside of the first one's answer");
            game.Step(1);
            Assert.Equal(2L, game.Trainer.Report().All.Decisions);
        }

        [Test]
        public void CancelEndsRunningAndWaitingPairsThoughNobodyAnswers()
        {
            foreach (var by in new Action<ParallelGame, CancellationTokenSource>[]
            {
                (game, _) => game.Trainer.Cancel(),
                (game, _) => game.Trainer.Dispose(),
                (game, source) =>
                {
                    source.Cancel();
                    Assert.True(game.Agents[0].Active, "another thread may cancel, and must touch no agent");
                    game.Step(1);
                },
            })
            {
                var source = new CancellationTokenSource();
                var game = new ParallelGame(6, 2, _ => new FakeAgent(), 0).Begin(3, source.Token);
                by(game, source);
                var report = game.Report();
                Assert.True(report.Cancelled && report.Pairs.All(pair => pair.State == PairState.Cancelled), "states");
                Assert.True(report.Pairs.All(pair => pair.Error == null), "a cancellation is no error");
                Assert.Equal(2, game.Agents.Sum(agent => agent.Count("Activate")));
                Assert.Equal(2, game.Agents.Sum(agent => agent.Count("Deactivate")));
                game.Step(2);
                Assert.Equal(2, game.Agents.Sum(agent => agent.Prompts.Count), "nothing is asked any more");
            }
            var late = new ParallelGame(3, 2, _ => new FakeAgent(), 0).Begin(0, new CancellationToken(true));
            Assert.True(late.Report().Cancelled && late.Agents.All(agent => agent.Calls.Count == 0), "it was started");
        }

        [Test]
        public void ACancelThatComesTooLateIsNone()
        {
            var game = new ParallelGame(2, 2, _ => FakeAgent.Constant(0f), 1).Begin(1);
            game.Report();
            game.Trainer.Cancel();
            Assert.True(!game.Trainer.Report().Cancelled, "cancelled");
            Assert.True(game.Trainer.Report().Pairs.All(pair => pair.State == PairState.Completed), "states");
        }

        [Test]
        public void AFailingPairFreesItsSlotAndTheOthersGoOn()
        {
            foreach (var call in new[] { "Activate", "RequestDecision", "SetReward", "Deactivate" })
            {
                var game = new ParallelGame(4, 1, _ => FakeAgent.Constant(0.5f), quota: 5);
                game.Agents[1].Broken = call;
                var report = game.Begin(30).Report();
                Assert.Sequence(
                    new[] { PairState.Completed, PairState.Failed, PairState.Completed, PairState.Completed },
                    report.Pairs.Select(pair => pair.State));
                Assert.Contains($"Pair 1 failed in its agent (FormatException: the {call}", report.Pairs[1].Error);
                Assert.True(report.Pairs.All(pair => pair.Id == 1 || pair.Error == null), "others have errors");
                Assert.Equal(1, Slots(game).CurrentCount, "the slot comes back");
            }
        }

        [Test]
        public void StoppingOnePairLeavesTheOthers()
        {
            var game = new ParallelGame(3, 2, _ => FakeAgent.Constant(0f), quota: 4).Begin(1);
            game.Pairs[0].Stop();
            var report = game.Step(6).Report();
            Assert.Sequence(new long[] { 1, 4, 4 }, report.Pairs.Select(pair => pair.Decisions));
            Assert.True(!report.Cancelled && report.Pairs[0].State == PairState.Cancelled, "states");
        }

        [Test]
        public void AResetReachesEveryPair()
        {
            var game = new ParallelGame(2, 2, _ => new FakeAgent(), 0).Begin(1);
            game.Trainer.Reset();
            Assert.True(game.Pairs.All(pair => pair.Trainer.State == PairState.Idle), "a decision is still open");
        }

        [Test]
        public void WhatCannotRunIsRefused()
        {
            Assert.Refused("There are 0 pairs to train, 1 at the same time; give at least 1.", () =>
                new ParallelTrainer(new AgentTrainerPair[0], 1));
            var game = new ParallelGame(1, 1, _ => new FakeAgent(), 0);
            Assert.Refused("There are 1 pairs to train, 0 at the same time", () => new ParallelTrainer(game.Pairs, 0));
            Assert.Throws<ArgumentException>(() => new ParallelTrainer(new[] { game.Pairs[0], game.Pairs[0] }, 1));
            game.Begin();
            Assert.Throws<InvalidOperationException>(() => game.Begin());
            game.Trainer.Dispose();
            game.Trainer.Dispose();
            Assert.Throws<ObjectDisposedException>(() => Slots(game).Wait(0));
        }

        [Test]
        public void StatisticsComeWithAThousandRewardsAndCoverWholeSteps()
        {
            var stats = new TauStats(GameData.Task());
            var game = new ParallelGame(70, 70, id => FakeAgent.Constant(id / 100f), 0, 1, stats).Begin();
            var reports = Enumerable.Range(0, 40).Select(_ => game.Step(1) == game ? stats.Take() : null).ToList();
            Assert.Sequence(new[] { 15, 30 }, Enumerable.Range(0, 40).Where(step => reports[step].Count > 0));
            var report = reports[15].ToDictionary(stat => stat.Key);
            Assert.Equal(1050f, report["Tau/Decisions"].Value);
            Assert.Equal(2100f, reports[30].Single(stat => stat.Latest).Value, "the latest counts of decisions alone");
            Assert.Equal(7 + TauStats.MostPairs, report.Count);
            var rewards = game.Agents.Select(
                agent => agent.Rewards.Take(15).Average(reward => (double)reward)).ToList();
            Assert.Near(rewards.Average(), report["Averaged Reward"].Value, 1e-6);
            Assert.Near(rewards[63], report["Tau/Pair 63/Mean Reward"].Value, 1e-6);
            var errors = game.Agents.SelectMany((agent, id) => agent.Targets.Take(15).SelectMany(
                target => target.Select(value => Math.Abs((double)value - (id / 100f))))).ToList();
            Assert.Near(errors.Average(), report["Tau/Mean Abs Error"].Value, 1e-6);
            Assert.Near(errors.Average(error => error < 0.1 ? 1.0 : 0.0), report["Tau/Within Threshold"].Value, 1e-6);
            Assert.True(report["Tau/Accuracy"].Value > 0f && report["Tau/Accuracy"].Value < 1f, "accuracy");
        }

        [Test]
        public void AccuracyIsAPairsOwnAndBeginsAnewWithARound()
        {
            var task = GameData.Task();
            var stats = new TauStats(task);
            for (var answer = 0; answer < 1000; answer++)
            {
                var given = answer % 4 == 0 ? 3 : answer % 10;
                stats.Add(answer % 2, task.Targets[given], answer % 10, 0.0, false, 0.5);
            }
            var right = Enumerable.Range(0, 1000).Where(answer => answer % 4 != 0 || answer % 10 == 3).ToList();
            Assert.Near(right.Count(answer => answer % 2 == 0) / 500.0, stats.Accuracy(0));
            Assert.Near(1.0, stats.Accuracy(1));
            Assert.True(double.IsNaN(stats.Accuracy(2)), "it has not answered");
            stats.BeginRound();
            Assert.True(double.IsNaN(stats.Accuracy(0)), "the next round begins without");
            stats.EndStep();
            var report = stats.Take();
            Assert.Near(right.Count / 1000.0, report.Single(stat => stat.Key == "Tau/Accuracy").Value, 1e-6);
            Assert.Near(0.5, report.Single(stat => stat.Key == "Tau/Engine Aggregated Reward").Value);
            Assert.Equal(0, stats.Take().Count, "a report is given out once");
        }

        [Test]
        public void TheReportWeighsMeansAndIsTheSameInEveryLanguage()
        {
            var pairs = new[]
            {
                Metrics(0, PairState.Completed, 300, 2, 0.5, 0.25, 0.2, 0.75, null),
                Metrics(1, PairState.Cancelled, 100, 1, -0.5, 0.75, 1.0, double.NaN, null),
                Metrics(2, PairState.Failed, 0, 0, double.NaN, double.NaN, double.NaN, double.NaN, "It broke."),
            };
            var expected = new[]
            {
                "pair  state      decisions  episodes  mean reward  success  aggregated  accuracy  error",
                "   0  Completed        300         2       +0.500   25.0 %       0.200    75.0 %",
                "   1  Cancelled        100         1       -0.500   75.0 %       1.000         -",
                "   2  Failed             0         0            -        -           -         -  It broke.",
                " all                   400         3       +0.250   37.5 %       0.400    75.0 %",
                "peak concurrency 2; 1 Completed, 1 Failed, 1 Cancelled; the run was cancelled",
            };
            var culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();
            culture.NumberFormat.NumberDecimalSeparator = ",";
            culture.NumberFormat.NegativeSign = "~";
            Thread.CurrentThread.CurrentCulture = culture;
            Assert.Sequence(expected, new CentralReport(pairs, 2, true).ToText().Split('\n'));
            Thread.CurrentThread.CurrentCulture = CultureInfo.InvariantCulture;
        }

        private static PairMetrics Metrics(
            int id, PairState state, long decisions, long episodes, double reward, double success, double aggregated,
            double accuracy, string error)
        {
            return new PairMetrics
            {
                Id = id, State = state, Decisions = decisions, Episodes = episodes, MeanReward = reward,
                SuccessRate = success, AggregatedReward = aggregated, Accuracy = accuracy, Error = error,
            };
        }

        private static SemaphoreSlim Slots(ParallelGame game)
        {
            var field = typeof(ParallelTrainer).GetField("_slots", BindingFlags.NonPublic | BindingFlags.Instance);
            return (SemaphoreSlim)field.GetValue(game.Trainer);
        }
    }
}
