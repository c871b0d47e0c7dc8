using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>
    /// One thread that works through what is posted to it, in order: what a game engine's main thread is to async code.
    /// </summary>
    public sealed class PumpContext : SynchronizationContext
    {
        private static readonly TimeSpan Limit = TimeSpan.FromSeconds(20);

        private readonly BlockingCollection<Action> _posted = new BlockingCollection<Action>();
        private readonly int _thread = Thread.CurrentThread.ManagedThreadId;

        /// <summary>Runs <paramref name="main"/> to its end on this thread, with everything that it posts.</summary>
        public static void Run(Func<Task> main)
        {
            var before = Current;
            var pump = new PumpContext();
            SetSynchronizationContext(pump);
            try
            {
                pump.Work(main());
            }
            finally
            {
                SetSynchronizationContext(before);
            }
        }

        /// <summary>The caller is on the thread of the current pump.</summary>
        public static void AssertHere()
        {
            var pump = Current as PumpContext;
            Assert.True(pump != null && pump._thread == Thread.CurrentThread.ManagedThreadId, "not on the main thread");
        }

        /// <summary>Appends work; any thread may do so.</summary>
        public override void Post(SendOrPostCallback callback, object state)
        {
            _posted.Add(() => callback(state));
        }

        /// <summary>Runs work at once; only the pump's own thread may do so.</summary>
        public override void Send(SendOrPostCallback callback, object state)
        {
            AssertHere();
            callback(state);
        }

        private void Work(Task main)
        {
            var clock = Stopwatch.StartNew();
            main.ContinueWith(_ => Post(ignored => { }, null), TaskScheduler.Default);
            while (!main.IsCompleted)
            {
                Assert.True(clock.Elapsed < Limit, "the main thread has nothing to do and yet does not end");
                if (_posted.TryTake(out var action, 100))
                {
                    action();
                }
            }
            main.GetAwaiter().GetResult();
        }
    }
}
