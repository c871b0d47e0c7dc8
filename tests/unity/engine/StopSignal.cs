using System;
using System.Threading;

namespace Tau.Engine
{
    /// <summary>Ctrl-C and SIGTERM: the engine ends tidily, and the process waits for that.</summary>
    internal sealed class StopSignal : IDisposable
    {
        private static readonly TimeSpan _patience = TimeSpan.FromSeconds(5);

        private readonly ManualResetEventSlim _finished = new ManualResetEventSlim();
        private volatile bool _requested;

        /// <summary>Listen from now on.</summary>
        public StopSignal()
        {
            Console.CancelKeyPress += OnCancelKey;
            AppDomain.CurrentDomain.ProcessExit += OnExit;
        }

        /// <summary>Whether the user wants the engine to end.</summary>
        public bool Requested => _requested;

        /// <summary>The engine has ended.</summary>
        public void Dispose()
        {
            Console.CancelKeyPress -= OnCancelKey;
            _finished.Set();
        }

        private void OnCancelKey(object sender, ConsoleCancelEventArgs arguments)
        {
            arguments.Cancel = true;
            _requested = true;
        }

        /// <summary>SIGTERM, or an ordinary end. The runtime would report the signal as a failure.</summary>
        private void OnExit(object sender, EventArgs arguments)
        {
            if (!_finished.IsSet)
            {
                _requested = true;
                _finished.Wait(_patience);
                Environment.ExitCode = 0;
            }
        }
    }
}
