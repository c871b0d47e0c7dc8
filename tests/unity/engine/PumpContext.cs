using System;
using System.Collections.Concurrent;
using System.Threading;

namespace Tau.Engine
{
    /// <summary>
    /// The main thread's synchronization context, as Unity has one: continuations wait in a queue and run when the main
    /// thread says so, once in each step.
    /// </summary>
    internal sealed class PumpContext : SynchronizationContext
    {
        private readonly ConcurrentQueue<Action> _queue = new ConcurrentQueue<Action>();
        private readonly int _thread = Thread.CurrentThread.ManagedThreadId;

        /// <inheritdoc/>
        public override void Post(SendOrPostCallback callback, object state)
        {
            _queue.Enqueue(() => callback(state));
        }

        /// <inheritdoc/>
        public override void Send(SendOrPostCallback callback, object state)
        {
            if (Thread.CurrentThread.ManagedThreadId == _thread)
            {
                callback(state);
                return;
            }

            using (var done = new ManualResetEventSlim())
            {
                _queue.Enqueue(() => Run(callback, state, done));
                done.Wait();
            }
        }

        /// <inheritdoc/>
        public override SynchronizationContext CreateCopy()
        {
            return this;
        }

        /// <summary>Run everything that waits, and what it brings along.</summary>
        public void Pump()
        {
            while (_queue.TryDequeue(out var work))
            {
                work();
            }
        }

        private static void Run(SendOrPostCallback callback, object state, ManualResetEventSlim done)
        {
            try
            {
                callback(state);
            }
            finally
            {
                done.Set();
            }
        }
    }
}
