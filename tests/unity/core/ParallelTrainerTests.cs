using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>N pairs under M slots: on one thread with a queue, as in a game engine.</summary>
    public sealed class ParallelTrainerTests
    {
        [Test]
        public void NoMoreThanMPairsRunAndMDo()
        {
            PumpContext.Run(async () =>
            {
                var game = new ParallelGame(9, 3, id => Late(1 + (id % 3)), quota: 6);
                var most = 0;
                game.Watch(() => most = Math.Max(most, game.Active));
                var report = await game.PlayAsync();
                Assert.Equal(3, most);
                Assert.Equal(3, report.PeakConcurrency);
                Assert.True(report.Pairs.All(pair => pair.State == PairState.Completed), "states");
                Assert.True(report.Pairs.All(pair => pair.Decisions == 6), "quota");
                Assert.Equal(0, game.Trainer.Running);
            });
        }

        [Test]
        public void ASlotIsHeldForAPairsWholeRun()
        {
            PumpContext.Run(async () =>
            {
                var game = new ParallelGame(3, 1, _ => Late(1), quota: 8);
                var order = new List<string>();
                game.Watch((id, call) => order.Add(id + call));
                await game.PlayAsync();
                for (var id = 0; id < 3; id++)
                {
                    var first = order.IndexOf(id + "Activate");
                    var last = order.IndexOf(id + "Deactivate");
                    var run = order.GetRange(first, last + 1 - first);
                    Assert.True(run.All(call => call[0] == (char)('0' + id)), "another pair ran in between");
                    Assert.Equal(8, run.Count(call => call.EndsWith("SetReward")));
                    Assert.Equal(id * run.Count, first);
                }
            });
        }

        [Test]
        public void AllPairsAreActiveBeforeRunAsyncReturnsWhereThereIsRoom()
        {
            var game = new ParallelGame(5, 5, _ => new FakeAgent(), 0);
            var order = new List<int>();
            game.Watch((id, call) => order.Add(id));
            game.Trainer.RunAsync(CancellationToken.None);
            Assert.Sequence(new[] { 0, 1, 2, 3, 4 }, order);
            Assert.Equal(5, game.Trainer.Running);
            game.Trainer.Dispose();
        }

        [Test]
        public void PairsStartByIdHoweverTheyAreGiven()
        {
            var task = GameData.Task();
            var order = new List<int>();
            var pairs = new List<AgentTrainerPair>();
            foreach (var id in new[] { 4, 0, 3, 1 })
            {
                var agent = FakeAgent.Constant(0f);
                agent.Watch = call => order.AddRange(call == "Activate" ? new[] { id } : new int[0]);
                pairs.Add(ParallelGame.Pair(id, task, agent, 2));
            }
            using (var trainer = new ParallelTrainer(pairs, 2))
            {
                var run = trainer.RunAsync(CancellationToken.None);
                for (var step = 0; step < 10; step++)
                {
                    trainer.Step();
                }
                Assert.True(run.IsCompleted, "not ended");
                Assert.Sequence(new[] { 0, 1, 3, 4 }, order);
                Assert.Sequence(new[] { 0, 1, 3, 4 }, trainer.Report().Pairs.Select(pair => pair.Id));
            }
        }

        [Test]
        public void TheNextPairStartsWithTheNextStepAndNotInsideOfAnAnswer()
        {
            var game = new ParallelGame(2, 1, _ => FakeAgent.Constant(0f), 1);
            game.Trainer.RunAsync(CancellationToken.None);
            game.Trainer.Step();
            Assert.True(!game.Agents[0].Active && !game.Agents[1].Active, "it began inside of the first one's answer");
            game.Trainer.Step();
            Assert.Equal(2L, game.Trainer.Report().Decisions);
        }

        [Test]
        public void EveryRewardGoesToItsOwnPair()
        {
            PumpContext.Run(async () =>
            {
                var game = new ParallelGame(6, 4, id => Late(id % 2, (id * 0.3f) - 0.9f), quota: 30);
                var report = await game.PlayAsync();
                var means = new List<double>();
                for (var id = 0; id < 6; id++)
                {
                    var agent = game.Agents[id];
                    var output = new float[3];
                    Array.Fill(output, (id * 0.3f) - 0.9f);
                    var mean = agent.Targets.Average(target => RewardFormulas.Incremental(output, target, 0.1, 3));
                    Assert.Equal(mean, report.Pairs[id].MeanReward, 1e-12, "pair " + id);
                    Assert.Equal(30L, report.Pairs[id].Decisions);
                    means.Add(mean);
                }
                Assert.Equal(6, means.Distinct().Count());
                Assert.Equal(180L, report.Decisions);
                Assert.Equal(means.Average(), report.MeanReward, 1e-12);
            });
        }

        [Test]
        public void EqualSeedsGiveEqualRunsThoughPairsTakeTurns()
        {
            Assert.Sequence(Story(5), Story(5));
            Assert.True(!Story(5).SequenceEqual(Story(6)), "another seed told the same story");
        }

        [Test]
        public void AResetReachesEveryPairAndASeedToo()
        {
            var game = new ParallelGame(2, 2, _ => new FakeAgent(), 0);
            game.Trainer.RunAsync(CancellationToken.None);
            game.Trainer.Step();
            game.Trainer.Seed(1);
            game.Trainer.Reset();
            Assert.True(game.Pairs.All(pair => pair.Trainer.State == PairState.Idle), "a decision is still open");
            game.Trainer.Step();
            Assert.True(
                game.Agents.All(agent => ReferenceEquals(agent.Prompts[0], agent.Prompts[1])), "the stream went on");
            game.Trainer.Dispose();
        }

        [Test]
        public void AStepEndsTheStatisticsOfTheLastOneBeforeItDraws()
        {
            var task = GameData.Task();
            var stats = new TauStats(task);
            var waiting = new List<int>();
            var agents = Enumerable.Range(0, 7).Select(_ => FakeAgent.Constant(0f)).ToList();
            agents[0].Watch = call => waiting.Add(call == "RequestDecision" ? stats.Take().Count : 0);
            var pairs = agents.Select((agent, id) => ParallelGame.Pair(id, task, agent, 0, 1, stats)).ToList();
            using (var trainer = new ParallelTrainer(pairs, 7, stats))
            {
                trainer.RunAsync(CancellationToken.None);
                for (var step = 0; step < 143; step++)
                {
                    trainer.Step();
                }
                Assert.True(waiting.All(count => count == 0), "a report before a thousand answers");
                trainer.Step();
                Assert.Equal(7 + 7, waiting.Max(), "seven statistics and one for each pair");
            }
        }

        /// <summary>An agent that answers some milliseconds later, from the main thread's queue.</summary>
        private static FakeAgent Late(int milliseconds, float value = 0.25f)
        {
            return new FakeAgent(async agent =>
            {
                await Task.Delay(milliseconds);
                PumpContext.AssertHere();
                agent.Answer(value);
            });
        }

        private static List<string> Story(long seed)
        {
            var game = new ParallelGame(7, 3, id => FakeAgent.Constant(id * 0.1f), 1 + (seed * 2), seed);
            var story = new List<string>();
            var step = 0;
            game.Watch((id, call) => story.Add($"{step} {id} {call} {game.Agents[id].Prompts.LastOrDefault()?[0]}"));
            var run = game.Trainer.RunAsync(CancellationToken.None);
            for (; !run.IsCompleted && step < 1000; step++)
            {
                game.Trainer.Step();
            }
            return story;
        }
    }
}
