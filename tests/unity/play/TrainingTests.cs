using System;
using System.Collections.Generic;
using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using Unity.MLAgents;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>Training with and without a trainer, from its start to its end.</summary>
    public sealed class TrainingTests
    {
        private const string Own = "VectorSensor_size384";

        [Test]
        public void WithoutATrainerEveryPairMeetsItsQuotaAndTrainingEnds()
        {
            var stage = new Stage();
            var reports = new List<CentralReport>();
            ParallelTrainerManager manager = TauSceneBuilder.Build(SceneKind.Tau)
                .GetComponent<ParallelTrainerManager>();
            manager.Finished += reports.Add;
            manager.StartTraining(TauOptions.Parse(
                new[] { "--tau-pairs", "5", "--tau-max-concurrent", "2", "--tau-decisions", "30" }));
            stage.PlayUntil(() => !manager.IsRunning);
            CentralReport report = reports.Single();
            Assert.True(report.Pairs.All(pair => pair.State == PairState.Completed && pair.Decisions == 30));
            Assert.Equal(2, report.PeakConcurrency);
            Assert.Equal(1, Stage.Reports(), "central reports in the log");
            Assert.True(ReferenceEquals(report, manager.Report), "the report is kept");
            stage.AssertQuiet();
        }

        [Test]
        public void NothingIsLeftBehindWhenTrainingEnds()
        {
            var stage = new Stage();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "3", "--tau-decisions", "4");
            Assert.Equal(1, Academy.Instance.PreStepListeners);
            stage.PlayUntil(() => !manager.IsRunning);
            stage.Play();
            Assert.Equal(0, Academy.Instance.PreStepListeners, "listeners of steps");
            Assert.Equal(0, Academy.Instance.ResetListeners, "listeners of resets");
            Assert.Equal(0, Academy.Instance.EnvironmentParameters.Listeners, "listeners of parameters");
            Assert.True(World.All().All(each => each.name != "Tau Agents"), "agents are still there");
        }

        [Test]
        public void EveryPairDecidesInEveryStepAlsoWithManyStepsAFrame()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "3");
            stage.Play(4, 5);
            Assert.Equal(60L, manager.Report.Decisions);
            Assert.Equal(20, stage.Trainer.Exchanges.Count, "one exchange a step");
        }

        [Test]
        public void AnAgentThatGetsItsTurnWhileAStepBeginsDecidesInThatStep()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            stage.Train("--tau-pairs", "4", "--tau-max-concurrent", "2", "--tau-decisions", "5");
            stage.Play(10);
            int[] asked = stage.Trainer.Exchanges.Select(batch => batch.Count(each => !each.Done)).ToArray();
            Assert.Sequence(Enumerable.Repeat(2, 10), asked, "decisions in a step");
            Assert.Equal(4, stage.Trainer.Ends.Count(), "cut ends");
            Assert.True(stage.Trainer.Ends.All(each => each.Interrupted), "an end by quota is a cut");
        }

        [Test]
        public void RewardsGoToThePairThatEarnedThem()
        {
            var stage = new Stage(message => message.Of("target").Select(
                value => message.Number % 2 == 0 ? value : -0.9f).ToArray());
            ParallelTrainerManager manager = stage.Train(
                "--tau-pairs", "4", "--tau-target-sensor", "--tau-reward", "binary");
            stage.Play(12);
            manager.Cancel(); // the last reward goes with the end
            Dictionary<int, float> paid = stage.Trainer.Said.GroupBy(message => message.Number)
                .ToDictionary(group => group.Key, group => group.Sum(message => message.Reward));
            int[] numbers = paid.Keys.OrderBy(number => number).ToArray();
            foreach (PairMetrics pair in manager.Report.Pairs)
            {
                int number = numbers[pair.Id];
                Assert.Equal(number % 2 == 0, pair.SuccessRate > 0.99, $"pair {pair.Id} succeeds");
                Assert.Equal(pair.MeanReward * 12, paid[number], 1e-4, $"pair {pair.Id} was paid");
            }
        }

        [Test]
        public void WhileATrainerIsConnectedARoundFollowsARound()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "2", "--tau-decisions", "5", "--tau-seed", "1");
            stage.PlayUntil(() => manager.Rounds == 2);
            stage.Play();
            Assert.True(manager.IsRunning, "the trainer has nobody to train");
            Assert.Equal(1, Academy.Instance.PreStepListeners);
            Assert.Equal(2, stage.Agents.Length, "agents of earlier rounds");
            Assert.Equal(0, Stage.Reports(), "a report is for the end");
            Assert.True(FirstPrompt(stage, 0)[0] != FirstPrompt(stage, 2)[0], "the same prompts again");
            stage.AssertQuiet();
        }

        [Test]
        public void TheLastObservationOfAnEpisodeIsItsLastPrompt()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            stage.Train("--tau-pairs", "2", "--tau-max-decisions", "3");
            stage.Play(30);
            var last = new Dictionary<int, AgentMessage>();
            foreach (AgentMessage message in stage.Trainer.Said)
            {
                if (message.Done)
                {
                    Assert.Sequence(last[message.Number].Of(Own), message.Of(Own), "last prompt");
                    Assert.True(message.Interrupted, "a cut was reported as a real end");
                }
                last[message.Number] = message;
            }
            Assert.Equal(20, stage.Trainer.Ends.Count());
        }

        [Test]
        public void AnEpisodeThatHasLostTooMuchReallyEnds()
        {
            Stage stage = Stage.WithTrainer(-1f, -1f, -1f);
            stage.Train("--tau-pairs", "1", "--tau-reward-threshold", "-2", "--tau-reward", "binary_strict");
            stage.Play(10);
            Assert.True(stage.Trainer.Ends.Any() && stage.Trainer.Ends.All(message => !message.Interrupted));
        }

        [Test]
        public void StatisticsGoOutOnceForAThousandAnswers()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            stage.Train("--tau-pairs", "10");
            var added = Academy.Instance.StatsRecorder.Added;
            stage.Play(100);
            Assert.Equal(0, added.Count, "the step has not ended yet");
            stage.Play(60);
            Assert.Sequence(
                added.Select(stat => stat.Key).Distinct().ToArray(), added.Select(stat => stat.Key), "sent twice:");
            Assert.Equal(7 + 10, added.Count);
            Assert.Equal(1000f, added.Single(stat => stat.Key == "Tau/Decisions").Value);
            Assert.Equal(
                StatAggregationMethod.MostRecent, added.Single(stat => stat.Key == "Tau/Decisions").Method);
            Assert.Equal(StatAggregationMethod.Average, added.Single(stat => stat.Key == "Averaged Reward").Method);
            Assert.True(added.Any(stat => stat.Key == "Tau/Pair 9/Mean Reward"), "no statistic of the last pair");
        }

        [Test]
        public void StatisticsGoOnFromRoundToRoundAndAccuracyBeginsAnew()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "10", "--tau-decisions", "60");
            var added = Academy.Instance.StatsRecorder.Added;
            stage.PlayUntil(() => added.Any());
            Assert.Equal(1, manager.Rounds, "a thousand answers are more than a round");
            Assert.Equal(1000f, added.Single(stat => stat.Key == "Tau/Decisions").Value);
            stage.PlayUntil(() => manager.Rounds == 3);
            Assert.True(manager.Report.Pairs.All(pair => double.IsNaN(pair.Accuracy) == (pair.Decisions == 0)));
        }

        [Test]
        public void TrainingTwiceAtATimeIsRefused()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "1");
            TauException mistake = Assert.Throws<TauException>(
                () => manager.StartTraining(TauOptions.Parse(Array.Empty<string>())));
            Assert.Contains("`training cancel`", mistake.Message);
            stage.Play(2);
            Assert.Equal(2L, manager.Report.Decisions, "the first training goes on");
        }

        [Test]
        public void ATrainingThatCannotBeginLeavesNothingBehind()
        {
            Stage stage = Stage.WithTrainer();
            Assert.Throws<TauException>(() => stage.Train("--tau-data", "no such file.json"));
            stage.Play();
            Assert.True(!stage.Manager.IsRunning, "it runs");
            Assert.Equal("Nothing was started.", stage.Manager.Status());
            Assert.True(World.All().All(each => each.name != "Tau Agents"), "objects are still there");
            Assert.Equal(0, Academy.Instance.PreStepListeners);
        }

        private static float[] FirstPrompt(Stage stage, int agent)
        {
            int[] numbers = stage.Trainer.Said.Select(message => message.Number).Distinct().ToArray();
            return stage.Trainer.Said.First(message => message.Number == numbers[agent]).Of(Own);
        }
    }
}
