using System;
using System.Threading;

namespace Tau.Core
{
    /// <summary>
    /// The thread on which it was made: agents are objects of the game's main thread, while a cancellation may come
    /// from any.
    /// </summary>
    internal sealed class MainThread
    {
        private readonly SynchronizationContext _context = SynchronizationContext.Current;
        private readonly int _id = Thread.CurrentThread.ManagedThreadId;

        /// <summary>
        /// Runs <paramref name="action"/> there: at once if the caller is there, else through its synchronization
        /// context. Where there is none, nothing happens: the owner looks for the cancellation in its next step.
        /// </summary>
        public void Run(Action action)
        {
            if (Thread.CurrentThread.ManagedThreadId == _id)
            {
                action();
            }
            else
            {
                _context?.Post(RunPosted, action);
            }
        }

        private static void RunPosted(object action)
        {
            ((Action)action)();
        }
    }
}
