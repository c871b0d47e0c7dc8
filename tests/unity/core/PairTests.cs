using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>One pair as a whole, and what pairs share.</summary>
    public sealed class PairTests
    {
        [Test]
        public void APairIsItsTrainerWithItsAgent()
        {
            var agent = FakeAgent.Right();
            var pair = Pair(agent, GameData.Task(), 5, 3);
            Assert.Equal(5, pair.Id);
            Assert.True(ReferenceEquals(agent, pair.Agent) && ReferenceEquals(agent.Trainer, pair.Trainer), "others");
            pair.Initialize();
            var run = pair.StartAsync(CancellationToken.None);
            for (var step = 0; step < 3; step++)
            {
                pair.Trainer.Step();
            }
            Assert.Equal(TaskStatus.RanToCompletion, run.Status);
            var metrics = pair.Metrics();
            Assert.Equal(5, metrics.Id);
            Assert.Equal(3L, metrics.Decisions);
            Assert.Equal(1.0, metrics.MeanReward, 0.0);
        }

        [Test]
        public void StopCancelsARunningPair()
        {
            var agent = new FakeAgent();
            var pair = Pair(agent, GameData.Task(), 0, 0);
            var run = pair.StartAsync(CancellationToken.None);
            pair.Trainer.Step();
            pair.Stop();
            pair.Stop();
            Assert.True(run.IsCanceled, "still running");
            Assert.Equal(1, agent.Count("Deactivate"));
        }

        [Test]
        public void APairThatWasStoppedBeforeNeverStarts()
        {
            var agent = new FakeAgent();
            var pair = Pair(agent, GameData.Task(), 0, 0);
            pair.Stop();
            Assert.True(pair.StartAsync(CancellationToken.None).IsCanceled, "it starts");
            Assert.Equal(0, agent.Calls.Count);
        }

        [Test]
        public void StatisticsOfAnotherTaskAreRefused()
        {
            var agent = new FakeAgent();
            var stats = new TauStats(GameData.Task());
            agent.Trainer = new AgentTrainer(8, GameData.Task(), agent, 1, null, stats);
            var pair = new AgentTrainerPair(agent.Trainer, agent, 1);
            var error = Assert.Throws<TauException>(() => pair.Initialize());
            Assert.Equal("Pair 8 reports to the statistics of another task; give both the same.", error.Message);
            Assert.Equal(PairState.Failed, agent.Trainer.State);
            Assert.Equal(error.Message, agent.Trainer.Metrics().Error);
        }

        [Test]
        public void TheDataAreParsedOnceForAllPairs()
        {
            var folder = Directory.CreateDirectory(Path.Combine(Path.GetTempPath(), Guid.NewGuid().ToString("N")));
            try
            {
                var path = GameData.Write(folder.FullName, GameData.Numbered("train", 20), GameData.Scattered);
                var before = TauDataset.Parses;
                var tasks = Enumerable.Range(0, 8).Select(_ => LoadedTask(path)).ToList();
                Assert.Equal(before + 1, TauDataset.Parses);
                foreach (var task in tasks)
                {
                    Assert.True(ReferenceEquals(tasks[0].Dataset, task.Dataset), "a data set of its own");
                    Assert.True(ReferenceEquals(tasks[0].Targets, task.Targets), "targets of its own");
                }
            }
            finally
            {
                folder.Delete(true);
            }
        }

        [Test]
        public void ARowWithoutEmbeddingIsSkippedAndCountedAndTrainingGoesOn()
        {
            var rows = GameData.Numbered("train", 20);
            rows.Insert(3, ("has no vector", "answer 1"));
            rows.Insert(9, ("its answer has none", "unknown answer"));
            var missing = new HashSet<string> { "has no vector", "unknown answer" };
            var dataset = GameData.Read(
                rows, rows.Take(0), text => missing.Contains(text) ? null : GameData.Scattered(text));
            Assert.Sequence(new[] { 4, 10 }, dataset.Skipped.Select(problem => problem.Row));
            Assert.Contains("4, 10", dataset.SkippedSentence());
            var agent = FakeAgent.Right();
            var task = new TauTask(dataset, TauProfile.Get("tau3"));
            var pair = Pair(agent, task, 0, 500);
            var run = pair.StartAsync(CancellationToken.None);
            for (var step = 0; step < 500; step++)
            {
                pair.Trainer.Step();
            }
            Assert.Equal(TaskStatus.RanToCompletion, run.Status);
            Assert.Equal(500L, pair.Metrics().Decisions);
            Assert.Equal(20, agent.Prompts.Distinct().Count());
        }

        [Test]
        public void ATaskPaysByItsFormulaAndFollowsNewRules()
        {
            var task = GameData.Task(rules: new TauRules(maxDecisions: 9));
            var near = task.Targets[4].Select(value => value > 0f ? value - 0.0625f : value + 0.0625f).ToArray();
            Assert.Equal(1.0 - 0.125, task.Reward(near, 4), 1e-6);
            Assert.True(task.Succeeds(near, 4), "within the threshold");
            var values = new Dictionary<string, float>
            {
                ["reward_type"] = 3f, ["threshold"] = 0.03125f, ["split"] = 1f,
            };
            task.Update(name => values.TryGetValue(name, out var value) ? value : (float?)null);
            Assert.Equal(-1.0, task.Reward(near, 4), 0.0);
            Assert.True(!task.Succeeds(near, 4), "beyond the threshold");
            Assert.Equal("evaluation", task.Rows.Name);
            Assert.Equal(9, task.Rules.MaxDecisions);
            task.Update(_ => null);
            Assert.Equal("train", task.Rows.Name);
            Assert.Equal(1.0 - 0.125, task.Reward(near, 4), 1e-6);
        }

        [Test]
        public void RulesThatDoNotFitChangeNothing()
        {
            var rows = GameData.Numbered("train", 12);
            var dataset = GameData.Read(rows, rows.Take(0), GameData.Scattered);
            var task = new TauTask(dataset, TauProfile.Get("tau3"));
            var error = Assert.Throws<TauException>(() => task.Follow(new TauRules("binary", split: "evaluation")));
            Assert.Equal("The data set game.json has no usable rows in its evaluation split.", error.Message);
            Assert.Throws<TauException>(() => task.Follow(new TauRules("binary", columns: 4)));
            Assert.Equal("train", task.Rows.Name);
            Assert.True(task.Rules.Reward == null, "the reward has changed");
        }

        private static TauTask LoadedTask(string path)
        {
            return new TauTask(TauDataset.Load(path), TauProfile.Get("tau3"));
        }

        private static AgentTrainerPair Pair(FakeAgent agent, TauTask task, int id, long quota)
        {
            agent.Trainer = new AgentTrainer(id, task, agent, 1);
            return new AgentTrainerPair(agent.Trainer, agent, quota);
        }
    }
}
