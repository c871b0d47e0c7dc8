using System;
using System.Diagnostics;
using System.Linq;
using System.Reflection;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>How runs of many pairs end: by cancellation, by failure, by disposal.</summary>
    public sealed class ParallelEndTests
    {
        [Test]
        public void CancelEndsRunningAndWaitingPairsWithinASecondThoughNobodyAnswers()
        {
            PumpContext.Run(async () =>
            {
                var game = new ParallelGame(6, 2, _ => new FakeAgent(), 0);
                using (var cancel = new CancellationTokenSource())
                {
                    var run = game.Trainer.RunAsync(cancel.Token);
                    game.Trainer.Step();
                    await Task.Delay(5);
                    Assert.True(!run.IsCompleted, "ended by itself");
                    var clock = Stopwatch.StartNew();
                    cancel.Cancel();
                    Check(await run, clock);
                    Assert.Equal(2, game.Agents.Count(agent => agent.Count("Activate") == 1));
                    Assert.Equal(2, game.Agents.Count(agent => agent.Count("Deactivate") == 1));
                }
            });
        }

        [Test]
        public void ATimersCancelReachesAgentsOnTheMainThreadWithoutAnotherStep()
        {
            PumpContext.Run(async () =>
            {
                var game = new ParallelGame(4, 2, _ => new FakeAgent(), 0);
                game.Watch(PumpContext.AssertHere);
                using (var cancel = new CancellationTokenSource())
                {
                    var run = game.Trainer.RunAsync(cancel.Token);
                    game.Trainer.Step();
                    var clock = Stopwatch.StartNew();
                    cancel.CancelAfter(10);
                    Check(await run, clock);
                    Assert.True(game.Agents.All(agent => !agent.Active), "an agent is still active");
                }
            });
        }

        [Test]
        public void WithoutAContextAnotherThreadsCancelTakesEffectInTheNextStep()
        {
            var game = new ParallelGame(3, 1, _ => new FakeAgent(), 0);
            using (var cancel = new CancellationTokenSource())
            {
                var run = game.Trainer.RunAsync(cancel.Token);
                var other = new Thread(cancel.Cancel);
                other.Start();
                other.Join();
                Assert.True(!run.IsCompleted && game.Agents[0].Active, "another thread touched an agent");
                game.Trainer.Step();
                Check(run.GetAwaiter().GetResult(), Stopwatch.StartNew());
            }
        }

        [Test]
        public void ATokenThatIsCancelledBeforeStartsNothing()
        {
            var game = new ParallelGame(3, 2, _ => new FakeAgent(), 0);
            var run = game.Trainer.RunAsync(new CancellationToken(true));
            Check(run.GetAwaiter().GetResult(), Stopwatch.StartNew());
            Assert.True(game.Agents.All(agent => agent.Calls.Count == 0), "an agent was started");
        }

        [Test]
        public void ACancelThatComesTooLateIsNone()
        {
            var game = new ParallelGame(2, 2, _ => FakeAgent.Constant(0f), 1);
            using (var cancel = new CancellationTokenSource())
            {
                var run = game.Trainer.RunAsync(cancel.Token);
                game.Trainer.Step();
                cancel.Cancel();
                game.Trainer.Step();
                Assert.True(!run.GetAwaiter().GetResult().Cancelled && !game.Trainer.Report().Cancelled, "cancelled");
                Assert.True(game.Trainer.Report().Pairs.All(pair => pair.State == PairState.Completed), "states");
            }
        }

        [Test]
        public void AFailingPairFreesItsSlotAndTheOthersGoOn()
        {
            foreach (var call in new[] { "Activate", "RequestDecision", "SetReward", "Deactivate" })
            {
                PumpContext.Run(async () =>
                {
                    var game = new ParallelGame(4, 1, _ => FakeAgent.Constant(0.5f), quota: 5);
                    game.Agents[1].Broken = call;
                    var report = await game.PlayAsync();
                    Assert.Sequence(
                        new[] { PairState.Completed, PairState.Failed, PairState.Completed, PairState.Completed },
                        report.Pairs.Select(pair => pair.State));
                    Assert.Contains($"Pair 1 failed in its agent (FormatException: the {call}", report.Pairs[1].Error);
                    Assert.True(report.Pairs.All(pair => pair.Id == 1 || pair.Error == null), "others have errors");
                    Assert.True(!report.Cancelled, "cancelled");
                });
            }
        }

        [Test]
        public void APairThatCannotBeInitialisedIsNotStarted()
        {
            var task = GameData.Task();
            var strange = new FakeAgent();
            strange.Trainer = new AgentTrainer(0, task, strange, 1, null, new TauStats(GameData.Task()));
            var good = ParallelGame.Pair(1, task, FakeAgent.Constant(0f), 1);
            var pairs = new[] { new AgentTrainerPair(strange.Trainer, strange, 1), good };
            using (var trainer = new ParallelTrainer(pairs, 1))
            {
                var run = trainer.RunAsync(CancellationToken.None);
                trainer.Step();
                var report = run.GetAwaiter().GetResult();
                Assert.Equal(PairState.Failed, report.Pairs[0].State);
                Assert.Equal(PairState.Completed, report.Pairs[1].State);
                Assert.Equal(0, strange.Calls.Count);
            }
        }

        [Test]
        public void StoppingOnePairLeavesTheOthers()
        {
            var game = new ParallelGame(3, 2, _ => FakeAgent.Constant(0f), quota: 4);
            var run = game.Trainer.RunAsync(CancellationToken.None);
            game.Trainer.Step();
            game.Pairs[0].Stop();
            for (var step = 0; step < 6; step++)
            {
                game.Trainer.Step();
            }
            var report = run.GetAwaiter().GetResult();
            Assert.Sequence(
                new[] { PairState.Cancelled, PairState.Completed, PairState.Completed },
                report.Pairs.Select(pair => pair.State));
            Assert.Sequence(new long[] { 1, 4, 4 }, report.Pairs.Select(pair => pair.Decisions));
            Assert.True(!report.Cancelled, "the run was not cancelled");
        }

        [Test]
        public void RunAsyncIsForOnce()
        {
            var game = new ParallelGame(2, 2, _ => new FakeAgent(), 0);
            game.Trainer.RunAsync(CancellationToken.None);
            Assert.Throws<InvalidOperationException>(() => { game.Trainer.RunAsync(CancellationToken.None); });
            game.Trainer.Dispose();
            Assert.Throws<ObjectDisposedException>(() => { game.Trainer.RunAsync(CancellationToken.None); });
        }

        [Test]
        public void DisposeCancelsAndFreesTheSemaphoreAndMayBeRepeated()
        {
            var game = new ParallelGame(3, 1, _ => new FakeAgent(), 0);
            var slots = Field<SemaphoreSlim>(game.Trainer);
            var source = Field<CancellationTokenSource>(game.Trainer);
            var run = game.Trainer.RunAsync(CancellationToken.None);
            Assert.Equal(0, slots.CurrentCount);
            game.Trainer.Dispose();
            game.Trainer.Dispose();
            Check(run.GetAwaiter().GetResult(), Stopwatch.StartNew());
            Assert.Throws<ObjectDisposedException>(() => { slots.Wait(0); });
            Assert.Throws<ObjectDisposedException>(() => source.Token.Register(() => { }));
            game.Trainer.Step();
            Assert.Equal(0, game.Agents[0].Prompts.Count);
            Assert.Equal(3, game.Trainer.Report().Pairs.Count);
        }

        [Test]
        public void AllSlotsComeBack()
        {
            PumpContext.Run(async () =>
            {
                var game = new ParallelGame(5, 2, _ => FakeAgent.Constant(0f), 3);
                game.Agents[2].Broken = "Activate";
                await game.PlayAsync(dispose: false);
                Assert.Equal(2, Field<SemaphoreSlim>(game.Trainer).CurrentCount);
                game.Trainer.Dispose();
            });
        }

        [Test]
        public void NothingToRunIsRefused()
        {
            var none = Assert.Throws<TauException>(() => new ParallelTrainer(new AgentTrainerPair[0], 1));
            Assert.Equal("There is no pair to train; give at least 1.", none.Message);
            var task = GameData.Task();
            var pair = ParallelGame.Pair(2, task, new FakeAgent(), 0);
            var slots = Assert.Throws<TauException>(() => new ParallelTrainer(new[] { pair }, 0));
            Assert.Equal("The number of pairs that train at the same time is 0; give at least 1.", slots.Message);
            var twin = ParallelGame.Pair(2, task, new FakeAgent(), 0);
            Assert.Throws<ArgumentException>(() => new ParallelTrainer(new[] { pair, twin }, 1));
        }

        private static void Check(CentralReport report, Stopwatch clock)
        {
            Assert.True(clock.Elapsed < TimeSpan.FromSeconds(1), "took " + clock.Elapsed);
            Assert.True(report.Cancelled, "the report does not say it");
            Assert.True(report.Pairs.All(pair => pair.State == PairState.Cancelled), "states");
            Assert.True(report.Pairs.All(pair => pair.Error == null), "a cancellation is no error");
        }

        private static T Field<T>(ParallelTrainer trainer)
        {
            var fields = typeof(ParallelTrainer).GetFields(BindingFlags.NonPublic | BindingFlags.Instance);
            return (T)fields.Single(field => field.FieldType == typeof(T)).GetValue(trainer);
        }
    }
}
