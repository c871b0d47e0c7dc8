using System;
using System.Collections.Generic;
using System.Text;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// The engine's end of ML-Agents' side channels: envelopes of a channel's id in .NET's byte order, a length and a
    /// payload. Takes environment parameters in, sends statistics out; the engine's other settings mean nothing here.
    /// </summary>
    internal sealed class SideChannels
    {
        private const int Head = 20;

        private static readonly Guid _engineConfiguration = new Guid("e951342c-4f7e-11ea-b238-784f4387d1f7");
        private static readonly Guid _environmentParameters = new Guid("534c891e-810f-11ea-a9d0-822485860400");
        private static readonly Guid _stats = new Guid("a1d8f7b7-cec8-50f9-b78b-d3e165a78520");
        private static readonly Guid _floatProperties = new Guid("60ccf7d0-4f7e-11ea-b238-784f4387d1f7");
        private static readonly Guid _analytics = new Guid("b664a4a9-d86f-5a5f-95cb-e8353a7e8356");

        private readonly EngineLog _log;
        private readonly WireWriter _outgoing = new WireWriter();
        private readonly HashSet<Guid> _unknown = new HashSet<Guid>();

        /// <summary>Channels that warn in <paramref name="log"/> of what they do not know.</summary>
        public SideChannels(EngineLog log)
        {
            _log = log;
        }

        /// <summary>What the trainer has set.</summary>
        public EnvironmentParameters Parameters { get; } = new EnvironmentParameters();

        /// <summary>Take in one reply's envelopes.</summary>
        /// <returns>Whether an environment parameter came.</returns>
        /// <exception cref="TauException">The bytes are not the protocol.</exception>
        public bool Receive(ReadOnlySpan<byte> data)
        {
            var changed = false;
            while (data.Length > 0)
            {
                if (data.Length < Head)
                {
                    throw new TauException(
                        "The trainer's side channel ends inside an envelope; use a trainer of communicator API 1.");
                }

                var channel = new Guid(data.Slice(0, 16));
                var length = new ChannelReader(data.Slice(16, 4)).ReadInt32(0);
                if (length < 0 || length > data.Length - Head)
                {
                    throw new TauException(
                        $"A message of {length} bytes runs past the end of the trainer's side channel; " +
                        "use a trainer of communicator API 1.");
                }

                changed |= Deliver(channel, data.Slice(Head, length));
                data = data.Slice(Head + length);
            }

            return changed;
        }

        /// <summary>Envelopes of these statistics, valid until the next call.</summary>
        public ReadOnlySpan<byte> Send(IReadOnlyList<TauStat> stats)
        {
            _outgoing.Clear();
            Span<byte> id = stackalloc byte[16];
            _stats.TryWriteBytes(id);
            for (var i = 0; i < stats.Count; i++)
            {
                var key = Encoding.ASCII.GetBytes(stats[i].Key);
                _outgoing.WriteRaw(id);
                _outgoing.WriteInt32(4 + key.Length + 4 + 4);
                _outgoing.WriteInt32(key.Length);
                _outgoing.WriteRaw(key);
                _outgoing.WriteInt32(BitConverter.SingleToInt32Bits(stats[i].Value));
                _outgoing.WriteInt32((int)stats[i].Kind);
            }

            return _outgoing.Written;
        }

        private bool Deliver(Guid channel, ReadOnlySpan<byte> payload)
        {
            if (channel == _environmentParameters)
            {
                Set(new ChannelReader(payload));
                return true;
            }

            var known = channel == _engineConfiguration || channel == _floatProperties || channel == _analytics;
            if (!known && _unknown.Add(channel))
            {
                _log.Write($"messages of the unknown side channel {channel} are ignored");
            }

            return false;
        }

        private void Set(ChannelReader payload)
        {
            const int number = 0;
            const int sampler = 1;
            const int ranges = 2;
            var name = payload.ReadText();
            var kind = payload.ReadInt32(-1);
            if (kind == number)
            {
                Parameters.Set(name, payload.ReadFloat());
                return;
            }

            if (kind != sampler)
            {
                throw new TauException(
                    $"Environment parameter `{name}` is of the unknown kind {kind}; give a number or a sampler.");
            }

            var seed = payload.ReadInt32(0);
            var distribution = payload.ReadInt32(-1);
            var values = distribution == ranges
                ? payload.ReadFloats()
                : new[] { payload.ReadFloat(), payload.ReadFloat() };
            Parameters.Set(name, new Sampler(name, seed, distribution, values));
        }
    }
}
