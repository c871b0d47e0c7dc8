using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>
    /// Runs N pairs under a semaphore of M slots. A pair holds its slot for its whole run; a pair that ends, fails or
    /// is cancelled gives it back, and the next one by id gets it at the beginning of the next step: never in the
    /// middle of an agent's action, and after the same step in every run with the same seed. All members belong to one
    /// thread, the game's main thread; only the cancellation may come from another.
    /// </summary>
    public sealed class ParallelTrainer : IDisposable
    {
        private readonly AgentTrainerPair[] _pairs;
        private readonly TauStats _stats;
        private readonly SemaphoreSlim _slots;
        private readonly CancellationTokenSource _cancel = new CancellationTokenSource();
        private readonly Queue<AgentTrainerPair> _waiting = new Queue<AgentTrainerPair>();
        private TaskCompletionSource<CentralReport> _done;
        private CancellationTokenRegistration _outer;
        private CancellationTokenRegistration _inner;
        private bool _disposed;

        /// <summary>A trainer for these pairs, not started.</summary>
        /// <param name="pairs">At least one, with different ids; none was started before.</param>
        /// <param name="maxConcurrent">How many run at the same time, at least 1.</param>
        /// <param name="stats">The pairs' statistics: told here when a step ends; null: none.</param>
        /// <exception cref="TauException">There is no pair, or no slot.</exception>
        /// <exception cref="ArgumentException">Two pairs have the same id.</exception>
        public ParallelTrainer(IReadOnlyList<AgentTrainerPair> pairs, int maxConcurrent, TauStats stats = null)
        {
            _pairs = (pairs ?? throw new ArgumentNullException(nameof(pairs))).OrderBy(pair => pair.Id).ToArray();
            if (_pairs.Length == 0)
            {
                throw new TauException("There is no pair to train; give at least 1.");
            }
            if (maxConcurrent < 1)
            {
                throw new TauException(FormattableString.Invariant(
                    $"The number of pairs that train at the same time is {maxConcurrent}; give at least 1."));
            }
            if (_pairs.Select(pair => pair.Id).Distinct().Count() < _pairs.Length)
            {
                throw new ArgumentException("two pairs have the same id", nameof(pairs));
            }
            _stats = stats;
            _slots = new SemaphoreSlim(maxConcurrent, maxConcurrent);
        }

        /// <summary>Pairs that run now.</summary>
        public int Running { get; private set; }

        /// <summary>Most pairs that ran at the same time.</summary>
        public int PeakConcurrency { get; private set; }

        /// <summary>
        /// Starts pairs in the order of their ids, as many as there are slots, before it returns; ends when every pair
        /// has ended. A pair's failure and a cancellation are in the report and throw nothing.
        /// </summary>
        /// <param name="token">
        /// Cancels running pairs, deactivating their agents, and those that wait. From another thread it takes effect
        /// through this thread's synchronization context or in the next <see cref="Step"/>, whichever comes first.
        /// </param>
        /// <exception cref="InvalidOperationException">It was called before.</exception>
        /// <exception cref="ObjectDisposedException">This object is disposed.</exception>
        public Task<CentralReport> RunAsync(CancellationToken token)
        {
            if (_disposed)
            {
                throw new ObjectDisposedException(nameof(ParallelTrainer));
            }
            if (_done != null)
            {
                throw new InvalidOperationException("these pairs were started before; make a new ParallelTrainer");
            }
            _done = new TaskCompletionSource<CentralReport>(TaskCreationOptions.RunContinuationsAsynchronously);
            foreach (var pair in _pairs)
            {
                _waiting.Enqueue(pair);
            }
            var thread = new MainThread();
            _inner = _cancel.Token.Register(() => thread.Run(Abandon));
            _outer = token.Register(_cancel.Cancel);
            Admit();
            return _done.Task;
        }

        /// <summary>
        /// To be called once in each step of the game, before it decides: ends the statistics of the last step, starts
        /// pairs where slots are free, and lets running pairs ask for their next decision.
        /// </summary>
        public void Step()
        {
            if (_disposed)
            {
                return;
            }
            if (_cancel.IsCancellationRequested)
            {
                Abandon();
            }
            _stats?.EndStep();
            Admit();
            foreach (var pair in _pairs)
            {
                pair.Trainer.Step();
            }
        }

        /// <summary>The environment was reset: every pair drops its open decision and its running episode.</summary>
        public void Reset()
        {
            foreach (var pair in _pairs)
            {
                pair.Trainer.Reset();
            }
        }

        /// <summary>Starts all pairs' streams of prompts anew.</summary>
        public void Seed(long seed)
        {
            foreach (var pair in _pairs)
            {
                pair.Trainer.Seed(seed);
            }
        }

        /// <summary>What the pairs have done so far.</summary>
        public CentralReport Report()
        {
            var pairs = _pairs.Select(pair => pair.Metrics()).ToArray();
            var cancelled = _cancel.IsCancellationRequested && pairs.Any(pair => pair.State == PairState.Cancelled);
            return new CentralReport(pairs, PeakConcurrency, cancelled);
        }

        /// <summary>Cancels what still runs and frees the semaphore and the token source. May be repeated.</summary>
        public void Dispose()
        {
            if (_disposed)
            {
                return;
            }
            _outer.Dispose();
            if (_done != null && !_done.Task.IsCompleted)
            {
                _cancel.Cancel();
            }
            _disposed = true;
            _inner.Dispose();
            _slots.Dispose();
            _cancel.Dispose();
        }

        private void Admit()
        {
            while (_waiting.Count > 0 && _slots.Wait(0))
            {
                _ = HoldAsync(_waiting.Dequeue());
            }
        }

        /// <summary>A pair's whole run, with a slot that was taken for it.</summary>
        private async Task HoldAsync(AgentTrainerPair pair)
        {
            Running++;
            PeakConcurrency = Math.Max(PeakConcurrency, Running);
            try
            {
                pair.Initialize();
                await pair.StartAsync(_cancel.Token);
            }
            catch (Exception) when (Ended(pair))
            {
                // Its metrics say why.
            }
            catch (Exception defect)
            {
                _done.TrySetException(defect);
            }
            Running--;
            if (!_disposed)
            {
                _slots.Release();
            }
            FinishIfOver();
        }

        private static bool Ended(AgentTrainerPair pair)
        {
            return pair.Trainer.State == PairState.Failed || pair.Trainer.State == PairState.Cancelled;
        }

        /// <summary>Cancels pairs that wait and pairs that run.</summary>
        private void Abandon()
        {
            if (_done.Task.IsCompleted)
            {
                return;
            }
            while (_waiting.Count > 0)
            {
                _waiting.Dequeue().Stop();
            }
            foreach (var pair in _pairs)
            {
                pair.Stop();
            }
            FinishIfOver();
        }

        private void FinishIfOver()
        {
            if (_waiting.Count == 0 && Running == 0 && !_done.Task.IsCompleted)
            {
                _outer.Dispose();
                _done.TrySetResult(Report());
            }
        }
    }
}
