using System;
using System.Text;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// A trainer's reply (<c>UnityMessageProto</c>), read into memory that the next reply uses again.
    /// </summary>
    internal sealed class TrainerMessage
    {
        /// <summary>Status of an ordinary message; all others mean the end.</summary>
        public const int StatusOk = 200;

        private readonly byte[] _behavior;
        private readonly int _size;
        private float[] _actions = new float[64];
        private byte[] _sideChannel = Array.Empty<byte>();
        private int _sideChannelSize;

        /// <summary>Replies to the agents of <paramref name="behavior"/>, with actions of this size.</summary>
        public TrainerMessage(string behavior, int actionSize)
        {
            Behavior = behavior;
            _behavior = Encoding.UTF8.GetBytes(behavior);
            _size = actionSize;
        }

        /// <summary>Full name of the behavior.</summary>
        public string Behavior { get; }

        /// <summary>Status of the header.</summary>
        public int Status { get; private set; }

        /// <summary>Whether there is any input at all.</summary>
        public bool HasInput { get; private set; }

        /// <summary>Whether the trainer introduces itself.</summary>
        public bool HasInitialization { get; private set; }

        /// <summary>The trainer's seed.</summary>
        public int Seed { get; private set; }

        /// <summary>The communicator API that the trainer speaks.</summary>
        public string Version { get; private set; } = string.Empty;

        /// <summary>How many copies of the training area the trainer wants.</summary>
        public int Areas { get; private set; }

        /// <summary>What to do.</summary>
        public TrainerCommand Command { get; private set; }

        /// <summary>How many agents the trainer answered.</summary>
        public int ActionCount { get; private set; }

        /// <summary>Messages of the side channels.</summary>
        public ReadOnlySpan<byte> SideChannel => _sideChannel.AsSpan(0, _sideChannelSize);

        /// <summary>Whether the trainer wants to go on.</summary>
        public bool GoesOn => Status == StatusOk && Command != TrainerCommand.Quit;

        /// <summary>Copy the action of agent <paramref name="index"/>, in the order of the agents that asked.</summary>
        /// <param name="index">0 to <see cref="ActionCount"/> - 1.</param>
        /// <param name="target">As long as an action.</param>
        public void CopyAction(int index, float[] target)
        {
            Array.Copy(_actions, index * _size, target, 0, _size);
        }

        /// <summary>Read a reply; what it does not say has protobuf's default value.</summary>
        /// <exception cref="TauException">
        /// The bytes are not such a message, or its actions are of another size.
        /// </exception>
        public void Read(ReadOnlySpan<byte> data)
        {
            Status = ActionCount = Seed = Areas = _sideChannelSize = 0;
            HasInput = HasInitialization = false;
            Version = string.Empty;
            Command = TrainerCommand.Step;
            var message = new WireReader(data);
            while (message.Next())
            {
                if (message.Is(1, WireWriter.Bytes))
                {
                    ReadHeader(message.Content);
                }
                else if (message.Is(3, WireWriter.Bytes))
                {
                    HasInput = true;
                    ReadInput(message.Content);
                }
            }
        }

        private void ReadHeader(ReadOnlySpan<byte> data)
        {
            var header = new WireReader(data);
            while (header.Next())
            {
                Status = header.Is(1, WireWriter.Varint) ? (int)header.Value : Status;
            }
        }

        private void ReadInput(ReadOnlySpan<byte> data)
        {
            var input = new WireReader(data);
            while (input.Next())
            {
                if (input.Is(1, WireWriter.Bytes))
                {
                    ReadStep(input.Content);
                }
                else if (input.Is(2, WireWriter.Bytes))
                {
                    HasInitialization = true;
                    ReadInitialization(input.Content);
                }
            }
        }

        private void ReadInitialization(ReadOnlySpan<byte> data)
        {
            var field = new WireReader(data);
            while (field.Next())
            {
                Seed = field.Is(1, WireWriter.Varint) ? (int)field.Value : Seed;
                Version = field.Is(2, WireWriter.Bytes) ? field.Text : Version;
                Areas = field.Is(5, WireWriter.Varint) ? (int)field.Value : Areas;
            }
        }

        private void ReadStep(ReadOnlySpan<byte> data)
        {
            var field = new WireReader(data);
            while (field.Next())
            {
                if (field.Is(1, WireWriter.Bytes))
                {
                    ReadBehavior(field.Content);
                }
                else if (field.Is(4, WireWriter.Varint))
                {
                    Command = field.Value <= 2 ? (TrainerCommand)field.Value : TrainerCommand.Step;
                }
                else if (field.Is(5, WireWriter.Bytes))
                {
                    KeepSideChannel(field.Content);
                }
            }
        }

        private void KeepSideChannel(ReadOnlySpan<byte> content)
        {
            if (_sideChannel.Length < content.Length)
            {
                _sideChannel = new byte[content.Length];
            }

            content.CopyTo(_sideChannel);
            _sideChannelSize = content.Length;
        }

        /// <summary>One entry of the map of actions: a behavior's name, and its agents' actions.</summary>
        private void ReadBehavior(ReadOnlySpan<byte> data)
        {
            ReadOnlySpan<byte> key = default;
            ReadOnlySpan<byte> list = default;
            var entry = new WireReader(data);
            while (entry.Next())
            {
                key = entry.Is(1, WireWriter.Bytes) ? entry.Content : key;
                list = entry.Is(2, WireWriter.Bytes) ? entry.Content : list;
            }

            if (key.SequenceEqual(_behavior))
            {
                ReadActions(list);
            }
        }

        private void ReadActions(ReadOnlySpan<byte> data)
        {
            ActionCount = 0;
            var action = new WireReader(data);
            while (action.Next())
            {
                if (action.Is(1, WireWriter.Bytes))
                {
                    ReadAction(action.Content);
                    ActionCount++;
                }
            }
        }

        /// <summary>One action; one without any values means zeros.</summary>
        private void ReadAction(ReadOnlySpan<byte> data)
        {
            var start = ActionCount * _size;
            var count = start;
            var field = new WireReader(data);
            while (field.Next())
            {
                if (field.Is(6, WireWriter.Bytes) || field.Is(6, WireWriter.Fixed32))
                {
                    field.AppendFloats(ref _actions, ref count);
                }
            }

            if (count != start && count != start + _size)
            {
                throw new TauException(
                    $"The trainer sent an action of {count - start} continuous values, but behavior " +
                    $"`{Behavior}` takes {_size}; use the trainer's settings of this profile.");
            }

            if (count == start)
            {
                EnsureRoom(start + _size);
                Array.Clear(_actions, start, _size);
            }
        }

        private void EnsureRoom(int count)
        {
            if (_actions.Length < count)
            {
                Array.Resize(ref _actions, 2 * count);
            }
        }
    }
}
