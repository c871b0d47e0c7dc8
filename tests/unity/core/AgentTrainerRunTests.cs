using System;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>The run of one pair: how it begins, and all the ways in which it ends.</summary>
    public sealed class AgentTrainerRunTests
    {
        private static readonly float[] Zeros = new float[3];

        [Test]
        public void ARunEndsWithExactlyItsQuota()
        {
            var agent = FakeAgent.Constant(0.1f);
            var trainer = agent.Train(GameData.Task());
            var run = trainer.RunAsync(17, CancellationToken.None);
            Assert.Equal("Activate", agent.Calls.Single());
            Steps(trainer, 16);
            Assert.True(!run.IsCompleted && agent.Active, "ended too early");
            Steps(trainer, 10);
            Assert.Equal(TaskStatus.RanToCompletion, run.Status);
            Assert.Equal(PairState.Completed, trainer.State);
            Assert.Equal(17, agent.Rewards.Count);
            Assert.Equal(17L, trainer.Metrics().Decisions);
            Assert.Sequence(new[] { "SetReward", "EpisodeInterrupted", "Deactivate" }, agent.Calls.Skip(34));
        }

        [Test]
        public void TheLastDecisionInterruptsAnEpisodeOnce()
        {
            var agent = FakeAgent.Constant(0f);
            var trainer = agent.Train(GameData.Task(rules: new TauRules(maxDecisions: 5)));
            trainer.RunAsync(10, CancellationToken.None);
            Steps(trainer, 20);
            Assert.Equal(2, agent.Count("EpisodeInterrupted"));
            Assert.Equal(2L, trainer.Metrics().Episodes);
        }

        [Test]
        public void ANaNEndsThePairWithASentence()
        {
            var agent = FakeAgent.Constant(float.NaN);
            var trainer = agent.Train(GameData.Task(), id: 6);
            var run = trainer.RunAsync(0, CancellationToken.None);
            trainer.Step();
            Assert.Equal(PairState.Failed, trainer.State);
            Assert.Equal(
                "The trainer sent NaN as an action for agent 6; its policy has diverged.", trainer.Metrics().Error);
            Assert.True(run.IsFaulted && run.Exception != null, "the task does not know");
            Assert.True(!agent.Active, "still active");
            Assert.Equal(0, agent.Rewards.Count);
        }

        [Test]
        public void TheWrongNumberOfActionsEndsThePairWithASentence()
        {
            var agent = new FakeAgent(self => self.Trainer.Answer(new float[5]));
            var trainer = agent.Start(GameData.Task());
            trainer.Step();
            Assert.Equal(
                "The trainer sent 5 actions for agent 0, but profile `tau3` has 3; train with that profile.",
                trainer.Metrics().Error);
        }

        [Test]
        public void AnExceptionOutOfAnyCallOfTheAgentFailsThePair()
        {
            var calls = new[]
            {
                "Activate", "RequestDecision", "SetReward", "EndEpisode", "EpisodeInterrupted", "Deactivate",
            };
            foreach (var call in calls)
            {
                var agent = FakeAgent.Constant(-1f);
                agent.Broken = call;
                var terminal = new TauRules(maxDecisions: 2, faithfulTerminal: call == "EndEpisode");
                var trainer = agent.Train(GameData.Task(rules: terminal));
                var run = trainer.RunAsync(3, CancellationToken.None);
                Steps(trainer, 5);
                Assert.Equal(PairState.Failed, trainer.State, call);
                Assert.Equal(
                    $"Pair 0 failed in its agent (FormatException: the {call} is broken).", trainer.Metrics().Error);
                Assert.True(run.IsFaulted && run.Exception.InnerException is FormatException, call);
                Assert.Equal(1, agent.Count("Deactivate"), call);
                Assert.Throws<InvalidOperationException>(() => trainer.Answer(Zeros));
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
        public void ASeedStartsTheStreamAnew()
        {
            var agent = FakeAgent.Constant(0f);
            var trainer = agent.Start(GameData.Task(), seed: 1);
            Steps(trainer, 20);
            trainer.Seed(1);
            Steps(trainer, 20);
            Assert.True(agent.Prompts.Take(20).SequenceEqual(agent.Prompts.Skip(20)), "another stream");
        }

        [Test]
        public void CancelEndsAnOpenDecisionAtOnce()
        {
            var agent = new FakeAgent();
            var trainer = agent.Train(GameData.Task());
            using (var cancel = new CancellationTokenSource())
            {
                var run = trainer.RunAsync(0, cancel.Token);
                trainer.Step();
                cancel.Cancel();
                Assert.True(run.IsCanceled, "the task does not know");
            }
            Assert.Equal(PairState.Cancelled, trainer.State);
            Assert.Sequence(new[] { "Activate", "RequestDecision", "Deactivate" }, agent.Calls);
            trainer.Step();
            Assert.Equal(1, agent.Prompts.Count);
        }

        [Test]
        public void ACancelledTokenKeepsTheAgentAsleep()
        {
            var agent = new FakeAgent();
            var trainer = agent.Train(GameData.Task());
            Assert.True(trainer.RunAsync(0, new CancellationToken(true)).IsCanceled, "it runs");
            Assert.Equal(0, agent.Calls.Count);
            Assert.Equal(PairState.Cancelled, trainer.State);
        }

        [Test]
        public void WithoutAContextAnotherThreadsCancelWaitsForTheNextStep()
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
                Assert.True(run.IsCanceled && !agent.Active, "the step did not end it");
            }
        }

        [Test]
        public void APairRunsOnce()
        {
            var trainer = new FakeAgent().Start(GameData.Task());
            Assert.Throws<InvalidOperationException>(() => { trainer.RunAsync(0, CancellationToken.None); });
            Assert.Throws<ArgumentOutOfRangeException>(
                () => { new FakeAgent().Train(GameData.Task()).RunAsync(-1, CancellationToken.None); });
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
