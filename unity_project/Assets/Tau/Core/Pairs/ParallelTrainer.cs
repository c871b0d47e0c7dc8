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
    /// thread, the game's main thread.
    /// </summary>
    public sealed class ParallelTrainer : IDisposable
    {
        private readonly AgentTrainerPair[] _pairs;
        private readonly TauStats _stats;
        private readonly SemaphoreSlim _slots;
        private readonly Queue<AgentTrainerPair> _waiting = new Queue<AgentTrainerPair>();
        private TaskCompletionSource<CentralReport> _done;
        private CancellationToken _token;
        private bool _cancelled;
        private bool _disposed;

        /// <summary>A trainer for these pairs, not started.</summary>
        /// <param name="pairs">At least one, with different ids; none was started before.</param>
        /// <param name="maxConcurrent">How many run at the same time, at least 1.</param>
        /// <param name="stats">The pairs' statistics: told here when a step ends; null: none.</param>
        /// <exception cref="TauException">There is no pair, or no slot.</exception>
        /// <exception cref="ArgumentException">Two pairs have the same id.</exception>
        public ParallelTrainer(IReadOnlyList<AgentTrainerPair> pairs, int maxConcurrent, TauStats stats = null)
        {
            _pairs = pairs.OrderBy(pair => pair.Id).ToArray();
            if (_pairs.Length == 0 || maxConcurrent < 1)
            {
                throw new TauException(FormattableString.Invariant(
                    $"There are {_pairs.Length} pairs to train, {maxConcurrent} at the same time; give at least 1."));
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
        /// <param name="token">Cancels in the next <see cref="Step"/>, also from another thread.</param>
        /// <exception cref="InvalidOperationException">It was called before, or this object is disposed.</exception>
        public Task<CentralReport> RunAsync(CancellationToken token)
        {
            if (_done != null || _disposed)
            {
                throw new InvalidOperationException("these pairs were started before; make a new ParallelTrainer");
            }
            _done = new TaskCompletionSource<CentralReport>(TaskCreationOptions.RunContinuationsAsynchronously);
            _token = token;
            foreach (var pair in _pairs)
            {
                _waiting.Enqueue(pair);
            }
            Admit();
            return _done.Task;
        }

        /// <summary>
        /// To be called once in each step of the game, before it decides: ends the statistics of the last step, starts
        /// pairs where slots are free, and lets running pairs ask for their next decision.
        /// </summary>
        public void Step()
        {
            if (_disposed || _done == null)
            {
                return;
            }
            _stats?.EndStep();
            Admit();
            foreach (var pair in _pairs)
            {
                pair.Trainer.Step();
            }
        }

        /// <summary>Ends running pairs at once, deactivating their agents; those that wait never start.</summary>
        public void Cancel()
        {
            if (_done == null || _done.Task.IsCompleted)
            {
                return;
            }
            _cancelled = true;
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

        /// <summary>The environment was reset: every pair drops its open decision and its running episode.</summary>
        public void Reset()
        {
            foreach (var pair in _pairs)
            {
                pair.Trainer.Reset();
            }
        }

        /// <summary>What the pairs have done so far.</summary>
        public CentralReport Report()
        {
            var pairs = _pairs.Select(pair => pair.Metrics()).ToArray();
            var cancelled = _cancelled && pairs.Any(pair => pair.State == PairState.Cancelled);
            return new CentralReport(pairs, PeakConcurrency, cancelled);
        }

        /// <summary>Cancels what still runs and frees the semaphore. May be repeated.</summary>
        public void Dispose()
        {
            Cancel();
            _disposed = true;
            _slots.Dispose();
        }

        private void Admit()
        {
            if (_token.IsCancellationRequested)
            {
                Cancel();
            }
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
                await pair.StartAsync(CancellationToken.None);
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

        private void FinishIfOver()
        {
            if (_waiting.Count == 0 && Running == 0)
            {
                _done.TrySetResult(Report());
            }
        }
    }
}
