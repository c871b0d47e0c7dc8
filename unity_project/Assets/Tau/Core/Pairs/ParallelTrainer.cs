using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>
    /// Runs N pairs under a semaphore of M slots. A pair holds its slot for its whole run. When it ends, fails or is
    /// cancelled, it releases the slot, and the next pair by id gets it at the start of the next step: never during an
    /// agent's action, and after the same step in every run with the same seed. Use all members on one thread, the
    /// game's main thread.
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
        /// <param name="pairs">At least one, with different ids, not started yet.</param>
        /// <param name="maxConcurrent">Maximum number of pairs that run at the same time, at least 1.</param>
        /// <param name="stats">The pairs' statistics, notified when a step ends; null: none.</param>
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

        /// <summary>Maximum number of pairs that ran at the same time.</summary>
        public int PeakConcurrency { get; private set; }

        /// <summary>
        /// Before it returns, starts pairs in the order of their ids, one for each slot. Ends when every pair has
        /// ended. Failures and cancellation do not throw; they are in the report.
        /// </summary>
        /// <param name="token">Cancels in the next <see cref="Step"/>; you can cancel from any thread.</param>
        /// <exception cref="InvalidOperationException">It was already called, or this object is disposed.</exception>
        public Task<CentralReport> RunAsync(CancellationToken token)
        {
            if (_done != null || _disposed)
            {
                throw new InvalidOperationException("these pairs were already started; make a new ParallelTrainer");
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
        /// Call it once in each step of the game, before decisions: ends the statistics of the last step, starts pairs
        /// in free slots, and lets running pairs ask for their next decision.
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

        /// <summary>Ends running pairs at once and deactivates their agents; waiting pairs never start.</summary>
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

        /// <summary>Handles a reset of the environment: every pair drops its open decision and its running
        /// episode.</summary>
        public void Reset()
        {
            foreach (var pair in _pairs)
            {
                pair.Trainer.Reset();
            }
        }

        /// <summary>The results so far.</summary>
        public CentralReport Report()
        {
            var pairs = _pairs.Select(pair => pair.Metrics()).ToArray();
            var cancelled = _cancelled && pairs.Any(pair => pair.State == PairState.Cancelled);
            return new CentralReport(pairs, PeakConcurrency, cancelled);
        }

        /// <summary>Cancels running pairs and frees the semaphore. You can call it repeatedly.</summary>
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

        /// <summary>A pair's whole run, holding its slot.</summary>
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
                // Its metrics have the error.
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
