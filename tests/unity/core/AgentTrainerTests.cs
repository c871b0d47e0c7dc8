using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Tau.Core.Tests
{
    /// <summary>One pair: which prompts it sees, which answers it takes, and what they are paid.</summary>
    public sealed class AgentTrainerTests
    {
        private static readonly float[] Zeros = new float[3];

        [Test]
        public void PromptsAreTheAgentsStreamOverTheTrainingRows()
        {
            var task = GameData.Task();
            var agent = FakeAgent.Constant(0f);
            var trainer = agent.Start(task, seed: 11, id: 4);
            Steps(trainer, 50);
            var random = new AgentRandom(11, 4);
            for (var step = 0; step < 50; step++)
            {
                var row = random.Next(40);
                Assert.True(ReferenceEquals(task.Dataset.Train.Prompts[row], agent.Prompts[step]), "prompt " + step);
                var answer = task.Dataset.Train.AnswerIndex[row];
                Assert.True(ReferenceEquals(task.Targets[answer], agent.Targets[step]), "target " + step);
            }
        }

        [Test]
        public void NothingIsDrawnBeforeTheFirstStepNorBetweenAnswerAndStep()
        {
            var agent = new FakeAgent();
            var trainer = agent.Start(GameData.Task());
            Assert.Equal(0, agent.Prompts.Count);
            trainer.Step();
            trainer.Answer(Zeros);
            Assert.Equal(1, agent.Prompts.Count);
            Assert.Equal(PairState.Idle, trainer.State);
        }

        [Test]
        public void AReportTellsAPairThatRunsAsTrainingAlsoBetweenDecisions()
        {
            var agent = new FakeAgent();
            var trainer = agent.Start(GameData.Task());
            trainer.Step();
            trainer.Answer(Zeros);
            Assert.Equal(PairState.Training, trainer.Metrics().State);
            trainer.Stop();
            Assert.Equal(PairState.Cancelled, trainer.Metrics().State);
        }

        [Test]
        public void StepDoesNothingWhileADecisionIsOpen()
        {
            var agent = new FakeAgent();
            var trainer = agent.Start(GameData.Task());
            Steps(trainer, 5);
            Assert.Equal(PairState.Training, trainer.State);
            Assert.Equal(1, agent.Prompts.Count);
            trainer.Answer(Zeros);
            trainer.Step();
            Assert.Equal(2, agent.Prompts.Count);
        }

        [Test]
        public void AnAnswerThatNobodyAskedForIsRefusedAndPaysNothing()
        {
            var agent = new FakeAgent();
            var trainer = agent.Start(GameData.Task());
            Assert.Throws<InvalidOperationException>(() => trainer.Answer(Zeros));
            trainer.Step();
            trainer.Answer(Zeros);
            var error = Assert.Throws<InvalidOperationException>(() => trainer.Answer(Zeros));
            Assert.Contains("Pair 0 was given an action that it did not ask for.", error.Message);
            Assert.Equal(1, agent.Rewards.Count);
            Assert.Equal(1L, trainer.Metrics().Decisions);
        }

        [Test]
        public void TheOldAnswerCannotBeReadWhileTheNewOneIsAwaited()
        {
            var agent = new FakeAgent();
            var trainer = agent.Start(GameData.Task());
            Assert.Throws<InvalidOperationException>(() => Use(trainer.Output));
            trainer.Step();
            Assert.Throws<InvalidOperationException>(() => Use(trainer.Output));
            trainer.Answer(new[] { 0.5f, 0f, 0f });
            Assert.Equal(0.5f, trainer.Output[0]);
            trainer.Step();
            Assert.Throws<InvalidOperationException>(() => Use(trainer.Output));
            trainer.Answer(new[] { -0.25f, 0f, 0f });
            Assert.Equal(-0.25f, trainer.Output[0]);
        }

        [Test]
        public void TheOutputIsACopyThatTheGameCannotChange()
        {
            var trainer = new FakeAgent().Start(GameData.Task());
            trainer.Step();
            var given = new[] { 0.5f, 0f, 0f };
            trainer.Answer(given);
            given[0] = 9f;
            trainer.Output[0] = 9f;
            Assert.Equal(0.5f, trainer.Output[0]);
        }

        [Test]
        public void ActionsAreClippedBeforeTheyArePaid()
        {
            var agent = new FakeAgent();
            var task = GameData.Task();
            var trainer = agent.Start(task);
            trainer.Step();
            trainer.Answer(new[] { 3f, float.NegativeInfinity, -0.5f });
            Assert.Sequence(new[] { 1f, -1f, -0.5f }, trainer.Output);
            var expected = RewardFormulas.Incremental(new[] { 1f, -1f, -0.5f }, agent.Targets[0], 0.1, 3);
            Assert.Equal((float)expected, agent.Rewards[0]);
        }

        [Test]
        public void EqualSeedsGiveEqualRunsAndOthersDoNot()
        {
            var first = RunOf(seed: 3, id: 2);
            Assert.Sequence(first, RunOf(seed: 3, id: 2));
            Assert.True(!first.SequenceEqual(RunOf(seed: 4, id: 2)), "another seed gave the same run");
            Assert.True(!first.SequenceEqual(RunOf(seed: 3, id: 1)), "another agent has the same run");
        }

        [Test]
        public void MetricsAreMeansOverDecisions()
        {
            var turns = 0;
            var agent = new FakeAgent(self => self.Trainer.Answer(turns++ % 4 == 0 ? self.Targets.Last() : Zeros));
            var task = GameData.Task();
            var stats = new TauStats(task);
            var trainer = agent.Train(task, stats: stats);
            Assert.True(double.IsNaN(trainer.Metrics().MeanReward) && double.IsNaN(trainer.Metrics().Accuracy), "0/0");
            trainer.RunAsync(0, CancellationToken.None);
            Steps(trainer, 40);
            var metrics = trainer.Metrics();
            Assert.Equal(agent.Rewards.Average(reward => (double)reward), metrics.MeanReward, 1e-7);
            var others = agent.Targets.Where((_, turn) => turn % 4 != 0);
            var zeros = others.Count(target => target.All(value => Math.Abs(value) < 0.1));
            Assert.Equal((10 + zeros) / 40.0, metrics.SuccessRate, 1e-12);
            Assert.Equal(metrics.SuccessRate, metrics.AggregatedReward, 1e-12);
            Assert.True(metrics.Accuracy >= 0.25 && metrics.Accuracy < 1.0, "accuracy " + metrics.Accuracy);
        }

        [Test]
        public void WindowsEndWithTheirEpisode()
        {
            var turns = 0;
            var agent = new FakeAgent(self => self.Trainer.Answer(turns++ == 0 ? self.Targets.Last() : Far(self)));
            var window = new RewardWindow("any", 100);
            var trainer = agent.Train(GameData.Task(rules: new TauRules(maxDecisions: 4)), window: window);
            trainer.RunAsync(0, CancellationToken.None);
            Steps(trainer, 8);
            Assert.Equal(4.0 / 8.0, trainer.Metrics().AggregatedReward, 1e-12);
            Assert.Equal(0, window.Count);
        }

        [Test]
        public void ADecisionAllocatesNothing()
        {
            var task = GameData.Task();
            var stats = new TauStats(task);
            var agent = new SilentAgent();
            var trainer = new AgentTrainer(0, task, agent, 1, stats: stats);
            agent.Trainer = trainer;
            trainer.RunAsync(0, CancellationToken.None);
            Play(trainer, stats, 1500);
            var before = GC.GetAllocatedBytesForCurrentThread();
            Play(trainer, null, 400);
            Assert.Equal(0L, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        private static void Play(AgentTrainer trainer, TauStats stats, int steps)
        {
            for (var step = 0; step < steps; step++)
            {
                stats?.EndStep();
                trainer.Step();
            }
        }

        private static float[] Far(FakeAgent agent)
        {
            return agent.Targets.Last().Select(value => value > 0f ? -1f : 1f).ToArray();
        }

        private static List<float> RunOf(long seed, int id)
        {
            var agent = new FakeAgent(self => self.Answer(self.Prompts.Last()[0] * 5f));
            var trainer = agent.Start(GameData.Task(), seed, id);
            Steps(trainer, 200);
            return agent.Prompts.Select(prompt => prompt[0]).Concat(agent.Rewards).ToList();
        }

        private static void Steps(AgentTrainer trainer, int count)
        {
            for (var step = 0; step < count; step++)
            {
                trainer.Step();
            }
        }

        private static void Use(float[] output)
        {
            Assert.True(output == null, "an old answer was read");
        }

        /// <summary>An agent that answers at once and keeps nothing.</summary>
        private sealed class SilentAgent : ITauAgent
        {
            private readonly float[] _output = { 0.1f, 0.2f, 0.3f };

            public AgentTrainer Trainer { private get; set; }

            public void Activate()
            {
            }

            public void Deactivate()
            {
            }

            public void RequestDecision(float[] prompt, float[] target)
            {
                Trainer.Answer(_output);
            }

            public void SetReward(float reward)
            {
            }

            public void EndEpisode()
            {
            }

            public void EpisodeInterrupted()
            {
            }
        }
    }
}
