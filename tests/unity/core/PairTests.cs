using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>One pair: what it asks, what it pays, and all the ways in which its run begins and ends.</summary>
    public sealed class PairTests
    {
        private static readonly float[] Zeros = new float[3];

        [Test]
        public void PromptsAreTheAgentsOwnStreamOverTheRows()
        {
            var task = GameData.Task();
            var agent = FakeAgent.Constant(0f);
            Steps(agent.Start(task, seed: 11, id: 4), 50);
            var random = new AgentRandom(11, 4);
            for (var step = 0; step < 50; step++)
            {
                var row = random.Next(40);
                Assert.True(ReferenceEquals(task.Dataset.Train.Prompts[row], agent.Prompts[step]), "prompt " + step);
                Assert.True(ReferenceEquals(task.Targets[task.Rows.AnswerIndex[row]], agent.Targets[step]), "target");
            }
        }

        [Test]
        public void ADecisionIsAnsweredOnceAndNothingHappensMeanwhile()
        {
            var agent = new FakeAgent();
            var trainer = agent.Start(GameData.Task());
            Assert.Equal(0, agent.Prompts.Count, "nothing is drawn before the first step");
            Assert.Throws<InvalidOperationException>(() => trainer.Answer(Zeros));
            Steps(trainer, 5);
            Assert.Equal(PairState.Training, trainer.State);
            Assert.Equal(1, agent.Prompts.Count);
            trainer.Answer(Zeros);
            Assert.Equal(PairState.Idle, trainer.State);
            Assert.Equal(PairState.Training, trainer.Metrics().State, "also between decisions");
            var error = Assert.Throws<InvalidOperationException>(() => trainer.Answer(Zeros));
            Assert.Equal("Pair 0 got an action that it did not request.", error.Message);
            Assert.Equal(1, agent.Rewards.Count);
        }

        [Test]
        public void ActionsAreClippedBeforeTheyArePaid()
        {
            var agent = new FakeAgent(self => self.Trainer.Answer(new[] { 3f, float.NegativeInfinity, -0.5f }));
            agent.Start(GameData.Task()).Step();
            var expected = RewardFormulas.Incremental(new[] { 1f, -1f, -0.5f }, agent.Targets[0], 0.1, 3);
            Assert.Equal((float)expected, agent.Rewards[0]);
        }

        [Test]
        public void MetricsAreMeansOverDecisions()
        {
            var turns = 0;
            var agent = new FakeAgent(self => self.Trainer.Answer(turns++ % 4 == 0 ? self.Targets.Last() : Zeros));
            var task = GameData.Task();
            var trainer = agent.Train(task, stats: new TauStats(task), window: new RewardWindow("any", 2));
            Assert.True(double.IsNaN(trainer.Metrics().MeanReward) && double.IsNaN(trainer.Metrics().Accuracy), "0/0");
            trainer.RunAsync(0, CancellationToken.None);
            Steps(trainer, 40);
            var metrics = trainer.Metrics();
            Assert.Equal(40L, metrics.Decisions);
            Assert.Near(agent.Rewards.Average(reward => (double)reward), metrics.MeanReward, 1e-7);
            Assert.Near(0.25, metrics.SuccessRate);
            Assert.Near(0.5, metrics.AggregatedReward, 1e-12, "each success counts for two steps");
            Assert.True(metrics.Accuracy >= 0.25 && metrics.Accuracy < 0.6, "accuracy " + metrics.Accuracy);
        }

        [Test]
        public void EpisodesEndByTheRulesAndTakeTheirWindowWithThem()
        {
            var turns = 0;
            var agent = new FakeAgent(self => self.Answer(turns++ == 0 ? 5f : -1f));
            var rules = new TauRules("binary01", threshold: 9.0, maxDecisions: 4);
            var window = new RewardWindow("sum", 100);
            var trainer = agent.Train(GameData.Task(rules: rules), window: window);
            trainer.RunAsync(10, CancellationToken.None);
            Steps(trainer, 9);
            Assert.Equal(1.0, window.Value, "one step since the last end");
            Assert.Equal(2, agent.Count("EpisodeInterrupted"));
            Steps(trainer, 1);
            Assert.Equal(3, agent.Count("EpisodeInterrupted"), "the end of the run cuts the running one");
            Assert.Equal(2L, trainer.Metrics().Episodes);
            var lost = FakeAgent.Constant(1f);
            Steps(lost.Start(GameData.Task(rules: new TauRules("binary", rewardThreshold: -2.0))), 7);
            Assert.True(lost.Count("EndEpisode") >= 1 && lost.Count("EpisodeInterrupted") == 0, "a real end");
        }

        [Test]
        public void ARunEndsWithExactlyItsQuota()
        {
            var agent = FakeAgent.Constant(0.1f);
            var trainer = agent.Train(GameData.Task());
            var run = trainer.RunAsync(17, CancellationToken.None);
            Assert.Sequence(new[] { "Activate" }, agent.Calls);
            Steps(trainer, 16);
            Assert.True(!run.IsCompleted && agent.Active, "ended too early");
            Steps(trainer, 10);
            Assert.Equal(TaskStatus.RanToCompletion, run.Status);
            Assert.Equal(PairState.Completed, trainer.State);
            Assert.Equal(17L, trainer.Metrics().Decisions);
            Assert.Sequence(new[] { "SetReward", "EpisodeInterrupted", "Deactivate" }, agent.Calls.Skip(34));
            Assert.Throws<InvalidOperationException>(() => trainer.RunAsync(1, CancellationToken.None));
        }

        [Test]
        public void ADivergedPolicyEndsThePairWithASentence()
        {
            var agent = FakeAgent.Constant(float.NaN);
            var trainer = agent.Train(GameData.Task(), id: 6);
            var run = trainer.RunAsync(0, CancellationToken.None);
            trainer.Step();
            Assert.True(run.IsFaulted && run.Exception != null && !agent.Active, "it goes on");
            Assert.Equal(PairState.Failed, trainer.State);
            Assert.Equal(
                "Got NaN as an action for agent 6; the policy has diverged, train it again.", trainer.Metrics().Error);
            Assert.Equal(0, agent.Rewards.Count);
            var other = new FakeAgent(self => self.Trainer.Answer(new float[5]));
            other.Start(GameData.Task()).Step();
            Assert.Equal(
                "Got 5 actions for agent 0, but profile `tau3` has 3; use a policy of that profile.",
                other.Trainer.Metrics().Error);
        }

        [Test]
        public void AnExceptionOutOfAnyCallOfTheAgentFailsThePair()
        {
            foreach (var call in new[]
            {
                "Activate", "RequestDecision", "SetReward", "EndEpisode", "EpisodeInterrupted", "Deactivate",
            })
            {
                var agent = FakeAgent.Constant(-1f);
                agent.Broken = call;
                var rules = new TauRules(maxDecisions: 2, faithfulTerminal: call == "EndEpisode");
                var trainer = agent.Train(GameData.Task(rules: rules));
                var run = trainer.RunAsync(3, CancellationToken.None);
                Steps(trainer, 5);
                Assert.Equal(PairState.Failed, trainer.State, call);
                Assert.Equal(
                    $"Pair 0 failed in its agent (FormatException: the {call} is broken).", trainer.Metrics().Error);
                Assert.True(run.IsFaulted && run.Exception.InnerException is FormatException, call);
                Assert.Equal(1, agent.Count("Deactivate"), call);
            }
        }

        [Test]
        public void AResetDropsDecisionAndEpisodeAndKeepsTheStream()
        {
            var agent = new FakeAgent();
            var task = GameData.Task(rules: new TauRules(maxDecisions: 3));
            var trainer = agent.Start(task, seed: 5);
            AnswerNext(trainer, 2);
            trainer.Step();
            trainer.Reset();
            Assert.Throws<InvalidOperationException>(() => trainer.Answer(Zeros));
            AnswerNext(trainer, 2);
            Assert.Equal(0, agent.Count("EpisodeInterrupted"));
            AnswerNext(trainer, 1);
            Assert.Equal(1, agent.Count("EpisodeInterrupted"));
            var random = new AgentRandom(5, 0);
            var prompts = Enumerable.Range(0, 6).Select(_ => task.Rows.Prompts[random.Next(40)]);
            Assert.True(prompts.SequenceEqual(agent.Prompts), "the stream did not go on");
        }

        [Test]
        public void ACancelFromAnyThreadEndsAnOpenDecisionInTheNextStep()
        {
            var agent = new FakeAgent();
            var trainer = agent.Train(GameData.Task());
            using (var cancel = new CancellationTokenSource())
            {
                var run = trainer.RunAsync(0, cancel.Token);
                trainer.Step();
                var other = new Thread(cancel.Cancel);
                other.Start();
                other.Join();
                Assert.True(agent.Active && !run.IsCompleted, "the agent was touched by another thread");
                trainer.Step();
                Assert.True(run.IsCanceled, "the task does not know");
            }
            Assert.Sequence(new[] { "Activate", "RequestDecision", "Deactivate" }, agent.Calls);
            Assert.Equal(PairState.Cancelled, trainer.State);
        }

        [Test]
        public void WhatIsStoppedBeforeItStartsNeverWakesItsAgent()
        {
            var agent = new FakeAgent();
            var trainer = agent.Train(GameData.Task());
            Assert.True(trainer.RunAsync(0, new CancellationToken(true)).IsCanceled, "it runs");
            var stopped = agent.Train(GameData.Task());
            stopped.Stop();
            Assert.True(stopped.RunAsync(0, CancellationToken.None).IsCanceled, "it runs");
            Assert.Equal(0, agent.Calls.Count);
            Assert.Equal(PairState.Cancelled, stopped.State);
        }

        [Test]
        public void StatisticsOfAnotherTaskAreRefused()
        {
            var trainer = new FakeAgent().Train(GameData.Task(), id: 2, stats: new TauStats(GameData.Task()));
            Assert.Refused("Pair 2 reports to the statistics of another task; give both the same.", trainer.Initialize);
            Assert.Equal(PairState.Failed, trainer.State);
        }

        [Test]
        public void RulesFollowTheParametersAndFitTheProfile()
        {
            var task = GameData.Task(rules: new TauRules(columns: 2));
            var told = new Dictionary<string, float> { ["split"] = 1f, ["reward_type"] = 4f, ["threshold"] = 0.5f };
            task.Update(name => told.TryGetValue(name, out var value) ? value : (float?)null);
            Assert.True(ReferenceEquals(task.Dataset.Evaluation, task.Rows), "held-out rows");
            Assert.Equal("binary01 2 0.5", $"{task.Formula} {task.Rules.Columns} {task.Rules.Threshold}");
            Assert.Equal(1.0, task.Reward(new[] { task.Targets[0][0], task.Targets[0][1], 9f }, 0));
            Assert.True(!task.Succeeds(new[] { task.Targets[0][0] + 0.6f, task.Targets[0][1], 0f }, 0), "too far");
            foreach (var (name, value) in new[]
            {
                ("columns", 4f), ("columns", 0f), ("threshold", 0f), ("threshold", float.PositiveInfinity),
                ("split", 2f), ("reward_type", 5f), ("max_decisions", -1f), ("reward_threshold", float.NaN),
            })
            {
                Assert.Throws<TauException>(() => task.Update(asked => asked == name ? value : (float?)null), name);
                Assert.Equal("binary01", task.Formula, "nothing has changed");
            }
            task.Update(_ => null);
            Assert.Equal("incremental train 2", $"{task.Formula} {task.Rules.Split} {task.Rules.Columns}");
            var nobody = TauDataset.Read(GameData.Bytes(GameData.Rows("train", 3), GameData.Rows("held", 0)), "x");
            Assert.Refused("The data set x has no usable rows in its evaluation split", () =>
                new TauTask(nobody, TauProfile.Get("tau3"), new TauRules(split: "evaluation")));
        }

        private static void Steps(AgentTrainer trainer, int count)
        {
            for (var step = 0; step < count; step++)
            {
                trainer.Step();
            }
        }

        private static void AnswerNext(AgentTrainer trainer, int count)
        {
            for (var step = 0; step < count; step++)
            {
                trainer.Step();
                trainer.Answer(Zeros);
            }
        }
    }
}
