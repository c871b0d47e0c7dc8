using System;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>The way to the trainer: one blocking call an exchange, as Unity's communicator makes it.</summary>
    internal sealed class TrainerLink : IDisposable
    {
        private const string Host = "localhost";
        private const string Method = "/communicator_objects.UnityToExternalProto/Exchange";
        private const int Cancelled = 1;
        private const int TooLarge = 8;
        private const int Unavailable = 14;

        private static readonly TimeSpan _retry = TimeSpan.FromMilliseconds(50);
        private static readonly TimeSpan _goodbye = TimeSpan.FromSeconds(1);

        private readonly int _port;
        private readonly Func<bool> _stopped;
        private Http2UnaryClient _client;

        /// <summary>Calls to the trainer that listens on this port of this machine.</summary>
        /// <param name="port">Where it listens.</param>
        /// <param name="stopped">True as soon as the user wants the engine to end.</param>
        public TrainerLink(int port, Func<bool> stopped)
        {
            _port = port;
            _stopped = stopped;
        }

        /// <inheritdoc/>
        public void Dispose()
        {
            _client?.Dispose();
        }

        /// <summary>The first exchange; tries again while nobody listens.</summary>
        /// <param name="request">The first message.</param>
        /// <param name="patience">How long to try.</param>
        /// <returns>The reply, valid until the next exchange.</returns>
        /// <exception cref="TauException">Nobody listens, or somebody else.</exception>
        /// <exception cref="TrainerGoneException">The trainer breaks off.</exception>
        /// <exception cref="OperationCanceledException">The user wants the engine to end.</exception>
        public ArraySegment<byte> Connect(ArraySegment<byte> request, TimeSpan patience)
        {
            var clock = Stopwatch.StartNew();
            while (_client == null)
            {
                try
                {
                    _client = Open();
                }
                catch (SocketException error)
                {
                    if (clock.Elapsed >= patience)
                    {
                        throw new TauException(
                            $"No trainer listens on {Host}:{_port}; start it first, or give its port with " +
                            "--mlagents-port.", error);
                    }

                    Thread.Sleep(_retry);
                    ThrowIfStopped();
                }
            }

            return Exchange(request);
        }

        /// <summary>Send a message and wait for the reply, however long it takes.</summary>
        /// <returns>The reply, valid until the next exchange.</returns>
        /// <exception cref="TauException">The other side is no trainer, or refuses the message.</exception>
        /// <exception cref="TrainerGoneException">The trainer is gone.</exception>
        /// <exception cref="OperationCanceledException">The user wants the engine to end.</exception>
        public ArraySegment<byte> Exchange(ArraySegment<byte> request)
        {
            ThrowIfStopped();
            try
            {
                return Usable().Call(request);
            }
            catch (SocketException error)
            {
                throw new TrainerGoneException(error.Message, error);
            }
            catch (CallException error)
            {
                throw Translated(error);
            }
        }

        /// <summary>Tell the trainer that this engine ends, if it still listens.</summary>
        public void Goodbye()
        {
            if (_client == null)
            {
                return;
            }

            try
            {
                _client.Hurry(_goodbye);
                _client.Cancel();
                if (_client.Usable)
                {
                    _client.Call(EngineMessages.Goodbye());
                }
            }
            catch (CallException)
            {
                // whoever does not listen any more need not be told
            }
        }

        private Exception Translated(CallException error)
        {
            var gone = error.Failure == CallFailure.Lost ||
                (error.Failure == CallFailure.Refused &&
                (error.Status < 0 || error.Status == Cancelled || error.Status == Unavailable));
            if (gone)
            {
                return new TrainerGoneException(error.Message, error);
            }

            if (error.Failure == CallFailure.Refused && error.Status == TooLarge)
            {
                return new TauException(
                    $"A message is too large for the trainer on {Host}:{_port} ({error.Message}); give fewer pairs " +
                    "with --tau-pairs.", error);
            }

            var status = error.Failure == CallFailure.Refused ? $", status {error.Status}" : string.Empty;
            return new TauException(
                $"What listens on {Host}:{_port} does not answer as an ML-Agents trainer ({error.Message}{status}); " +
                "give the trainer's port with --mlagents-port.", error);
        }

        /// <summary>The connection, renewed where it can take no more calls.</summary>
        private Http2UnaryClient Usable()
        {
            if (!_client.Usable)
            {
                _client.Dispose();
                _client = Open();
            }

            return _client;
        }

        private Http2UnaryClient Open()
        {
            var addresses = Dns.GetHostAddresses(Host); // usually both ::1 and 127.0.0.1
            for (var i = 0; ; i++)
            {
                var socket = new Socket(addresses[i].AddressFamily, SocketType.Stream, ProtocolType.Tcp);
                try
                {
                    socket.Connect(addresses[i], _port);
                    return new Http2UnaryClient(socket, Host + ":" + _port, Method, _stopped);
                }
                catch (SocketException) when (i + 1 < addresses.Length)
                {
                    socket.Dispose();
                }
                catch
                {
                    socket.Dispose();
                    throw;
                }
            }
        }

        private void ThrowIfStopped()
        {
            if (_stopped())
            {
                throw new OperationCanceledException();
            }
        }
    }
}
