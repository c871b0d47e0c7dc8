using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Tau.Core.Tests
{
    /// <summary>When an episode ends, and how: against the vectors shared with Python, and at the borders.</summary>
    public sealed class EpisodeTests
    {
        [Test]
        public void EndsAreThoseOfTheSharedVectors()
        {
            var cases = (List<object>)TestData.Vectors["episodes"];
            Assert.True(cases.Count > 0, "no cases");
            foreach (Dictionary<string, object> entry in cases)
            {
                var rewards = ((List<object>)entry["rewards"]).Cast<double>().ToList();
                var ends = ((List<object>)entry["ends"]).Cast<string>();
                Assert.Sequence(ends, Play(RulesOf((Dictionary<string, object>)entry["rules"]), rewards));
            }
        }

        [Test]
        public void AnEpisodeEndsAtTheThresholdAndNotBefore()
        {
            var rules = new TauRules(maxDecisions: 0, rewardThreshold: -2.0);
            Assert.Sequence(
                new[] { "none", "none", "terminal", "none" }, Play(rules, new[] { -1.0, -0.875, -0.125, -1.875 }));
        }

        [Test]
        public void TheThresholdWinsOverTheLimitInTheSameDecision()
        {
            var rules = new TauRules(maxDecisions: 2, rewardThreshold: -2.0);
            Assert.Sequence(
                new[] { "none", "terminal", "none", "interrupted" }, Play(rules, new[] { -1.0, -1.0, -1.0, -0.5 }));
        }

        [Test]
        public void ALimitThatComesLaterCutsALongEpisode()
        {
            var task = GameData.ExactTask(new TauRules(maxDecisions: 0));
            var ends = Play(task, new[] { 0.0, 0.0, 0.0, 0.0 }, step =>
            {
                if (step == 2)
                {
                    task.Follow(new TauRules("incremental", 1, maxDecisions: 2));
                }
            });
            Assert.Sequence(new[] { "none", "none", "interrupted", "none" }, ends);
        }

        [Test]
        public void EpisodesAreCountedAndTheRewardComesFirst()
        {
            var agent = FakeAgent.Constant(0f);
            var task = GameData.Task(rules: new TauRules(maxDecisions: 3));
            agent.Trainer = new AgentTrainer(0, task, agent, 1);
            agent.Trainer.RunAsync(0, CancellationToken.None);
            for (var step = 0; step < 7; step++)
            {
                agent.Trainer.Step();
            }
            Assert.Equal(2L, agent.Trainer.Metrics().Episodes);
            Assert.Sequence(
                new[]
                {
                    "Activate", "RequestDecision", "SetReward", "RequestDecision", "SetReward", "RequestDecision",
                    "SetReward", "EpisodeInterrupted", "RequestDecision",
                },
                agent.Calls.Take(9));
        }

        private static TauRules RulesOf(Dictionary<string, object> rules)
        {
            return new TauRules().Updated(
                name => rules.TryGetValue(name, out var value) ? (float)(double)value : (float?)null);
        }

        private static List<string> Play(TauRules rules, IEnumerable<double> rewards)
        {
            return Play(GameData.ExactTask(rules), rewards, _ => { });
        }

        /// <summary>How each decision ended, by an agent that earns exactly these rewards.</summary>
        private static List<string> Play(TauTask task, IEnumerable<double> rewards, Action<int> before)
        {
            var agent = new FakeAgent();
            agent.Trainer = new AgentTrainer(0, task, agent, 7);
            agent.Trainer.RunAsync(0, CancellationToken.None);
            var ends = new List<string>();
            foreach (var reward in rewards)
            {
                before(ends.Count);
                agent.Trainer.Step();
                var calls = agent.Calls.Count;
                agent.Trainer.Answer(GameData.Earning(reward, agent.Targets.Last()));
                Assert.Equal((float)reward, agent.Rewards.Last());
                ends.Add(End(agent.Calls.Skip(calls).ToList()));
            }
            return ends;
        }

        private static string End(List<string> calls)
        {
            Assert.Equal("SetReward", calls[0]);
            Assert.True(calls.Count <= 2, "several ends");
            return calls.Count == 1 ? "none" : calls[1] == "EndEpisode" ? "terminal" : "interrupted";
        }
    }
}
