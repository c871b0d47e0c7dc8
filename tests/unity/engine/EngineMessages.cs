using System;
using System.Collections.Generic;
using System.Text;

namespace Tau.Engine
{
    /// <summary>
    /// Writes an engine's messages (<c>UnityMessageProto</c>) for one behavior whose agents see a prompt, and the
    /// answer's vector if the trainer asks for it. Every message uses the same memory.
    /// </summary>
    internal sealed class EngineMessages
    {
        /// <summary>The communicator API that this engine speaks.</summary>
        public const string Version = "1.5.0";

        private const string PackageVersion = "3.0.0";
        private const int StatusClose = 400;
        private const int Capabilities = 7;
        private const int RecordField = 13;

        private readonly WireWriter _writer = new WireWriter();
        private readonly byte[] _behavior;
        private readonly byte[] _announcement;
        private readonly Sensor _prompt;
        private readonly Sensor _target;
        private bool _announced;

        /// <summary>Messages of the agents of <paramref name="behavior"/>.</summary>
        /// <param name="behavior">The full name, with <c>?team=</c>.</param>
        /// <param name="promptSize">Floats of an observation.</param>
        /// <param name="actionSize">Continuous actions.</param>
        /// <param name="targetSensor">Whether there is a sensor <c>target</c>, as long as an action.</param>
        public EngineMessages(string behavior, int promptSize, int actionSize, bool targetSensor)
        {
            _behavior = Encoding.UTF8.GetBytes(behavior);
            _prompt = new Sensor("VectorSensor_size" + promptSize, promptSize);
            _target = targetSensor ? new Sensor("target", actionSize) : null; // before the prompt, by their names
            _announcement = Announcement(behavior, actionSize);
        }

        /// <summary>The first message: who speaks.</summary>
        public static ArraySegment<byte> Introduction()
        {
            var flags = new WireWriter();
            for (var capability = 1; capability <= Capabilities; capability++)
            {
                flags.WriteFlag(capability, true);
            }

            var introduction = new WireWriter();
            introduction.WriteText(1, "AcademySingleton");
            introduction.WriteText(2, Version);
            introduction.WriteText(7, PackageVersion);
            introduction.WriteField(8, flags.Written);
            var output = new WireWriter();
            output.WriteField(2, introduction.Written);
            var message = new WireWriter();
            WriteHeader(message, TrainerMessage.StatusOk);
            message.WriteField(2, output.Written);
            return message.Written;
        }

        /// <summary>The second message, which asks the trainer to begin.</summary>
        public static ArraySegment<byte> Ready()
        {
            var message = new WireWriter();
            WriteHeader(message, TrainerMessage.StatusOk);
            return message.Written;
        }

        /// <summary>The last message of an engine that ends by itself.</summary>
        public static ArraySegment<byte> Goodbye()
        {
            var message = new WireWriter();
            WriteHeader(message, StatusClose);
            return message.Written;
        }

        /// <summary>One exchange: agents whose episode ended first, then those that ask for a decision.</summary>
        /// <param name="records">In the order that the trainer shall answer in.</param>
        /// <param name="sideChannel">Envelopes for the side channels.</param>
        public ArraySegment<byte> Step(List<AgentRecord> records, ReadOnlySpan<byte> sideChannel)
        {
            var largest = 0;
            foreach (var record in records)
            {
                largest = Math.Max(largest, record.Id);
            }

            var idWidth = WireWriter.WidthOf((uint)largest);
            var body = RecordLength(idWidth);
            var list = records.Count * WireWriter.SizeOfField(1, body);
            var entry = WireWriter.SizeOfField(1, _behavior.Length) + WireWriter.SizeOfField(2, list);
            var step = WireWriter.SizeOfField(2, entry);
            step += sideChannel.Length > 0 ? WireWriter.SizeOfField(3, sideChannel.Length) : 0;
            var announce = !_announced && records.Count > 0;
            var output = WireWriter.SizeOfField(1, step);
            output += announce ? WireWriter.SizeOfField(2, _announcement.Length) : 0;

            _writer.Clear();
            WriteHeader(_writer, TrainerMessage.StatusOk);
            _writer.WriteHead(2, output);
            _writer.WriteHead(1, step);
            _writer.WriteHead(2, entry);
            _writer.WriteField(1, _behavior);
            _writer.WriteHead(2, list);
            foreach (var record in records)
            {
                WriteRecord(record, body, idWidth);
            }

            WriteRest(sideChannel, announce);
            return _writer.Written;
        }

        private static void WriteHeader(WireWriter writer, int status)
        {
            writer.WriteHead(1, 1 + WireWriter.WidthOf((uint)status));
            writer.WriteNumber(1, status);
        }

        /// <summary>The behavior's name and actions, sent once.</summary>
        private static byte[] Announcement(string behavior, int actionSize)
        {
            var actions = new WireWriter();
            actions.WriteNumber(1, actionSize);
            var brain = new WireWriter();
            brain.WriteText(7, behavior);
            brain.WriteFlag(8, true);
            brain.WriteField(9, actions.Written);
            var announcement = new WireWriter();
            announcement.WriteField(5, brain.Written);
            return announcement.Written.ToArray();
        }

        private int RecordLength(int idWidth)
        {
            const int rewardDoneAndMaxStep = 5 + 2 + 2;
            var sensors = WireWriter.SizeOfField(RecordField, _prompt.Length);
            sensors += _target == null ? 0 : WireWriter.SizeOfField(RecordField, _target.Length);
            return rewardDoneAndMaxStep + 1 + idWidth + sensors;
        }

        private void WriteRecord(in AgentRecord record, int length, int idWidth)
        {
            _writer.WriteHead(1, length);
            _writer.WriteFloat(7, record.Reward);
            _writer.WriteFlag(8, record.Done);
            _writer.WriteFlag(9, record.Interrupted);
            _writer.WriteTag(10, WireWriter.Varint);
            _writer.WriteVarint((uint)record.Id, idWidth);
            if (_target != null)
            {
                _writer.WriteHead(RecordField, _target.Length);
                _target.Write(_writer, record.Target);
            }

            _writer.WriteHead(RecordField, _prompt.Length);
            _prompt.Write(_writer, record.Prompt);
        }

        private void WriteRest(ReadOnlySpan<byte> sideChannel, bool announce)
        {
            if (sideChannel.Length > 0)
            {
                _writer.WriteField(3, sideChannel);
            }

            if (announce)
            {
                _writer.WriteField(2, _announcement);
                _announced = true;
            }
        }
    }
}
