using System;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>One run of a pair from outside: its length, its cancellation, and the task others wait for.</summary>
    internal sealed class PairRun
    {
        private readonly TaskCompletionSource<bool> _done = new TaskCompletionSource<bool>();
        private readonly MainThread _thread = new MainThread();
        private readonly CancellationToken _token;
        private CancellationTokenRegistration _registration;

        /// <summary>A run of <paramref name="quota"/> decisions; 0: without end.</summary>
        public PairRun(long quota, CancellationToken token)
        {
            Quota = quota >= 0
                ? quota
                : throw new ArgumentOutOfRangeException(nameof(quota), quota, "give 0 (no end) or more decisions");
            _token = token;
        }

        /// <summary>Decisions to answer; 0: until it is cancelled.</summary>
        public long Quota { get; }

        /// <summary>Completes as the run ends, on the thread that ends it.</summary>
        public Task Task => _done.Task;

        /// <summary>Whether somebody cancelled.</summary>
        public bool CancelRequested => _token.IsCancellationRequested;

        /// <summary>Calls <paramref name="stop"/> on the thread of this object once somebody cancels.</summary>
        public void Watch(Action stop)
        {
            _registration = _token.Register(() => _thread.Run(stop));
        }

        /// <summary>Does not look for a cancellation any more.</summary>
        public void Leave()
        {
            _registration.Dispose();
        }

        /// <summary>Ends the task as <paramref name="state"/> says.</summary>
        public void Close(PairState state, Exception error)
        {
            switch (state)
            {
                case PairState.Failed:
                    _done.TrySetException(error);
                    break;
                case PairState.Cancelled:
                    _done.TrySetCanceled();
                    break;
                default:
                    _done.TrySetResult(true);
                    break;
            }
        }
    }
}
