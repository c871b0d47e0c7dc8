using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Text;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// Every decision in a binary file, so that another program can recompute all rewards. Little-endian; first
    /// <c>TAUD</c>, int32 version (1) and int32 action size A; then for each decision int32 exchange, pair, split
    /// (0 train, 1 evaluation), row and episode end (0 none, 1 terminal, 2 interrupted), float32 reward, and A float32
    /// of the action as it arrived.
    /// </summary>
    internal sealed class DecisionLog : IDisposable
    {
        private const int Version = 1;

        private readonly BinaryWriter _writer;
        private readonly Dictionary<float[], (int Split, int Row)> _rows =
            new Dictionary<float[], (int Split, int Row)>(new SameArray());

        /// <summary>Begin a log, over an older file of this name.</summary>
        /// <exception cref="TauException">The file cannot be written.</exception>
        public DecisionLog(string path, TauDataset dataset, int actionSize)
        {
            try
            {
                _writer = new BinaryWriter(new FileStream(path, FileMode.Create, FileAccess.Write, FileShare.Read));
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                throw new TauException(
                    $"The report file `{path}` cannot be written: {error.Message.TrimEnd('.')}; choose another.",
                    error);
            }

            AddRows(dataset.Train, 0);
            AddRows(dataset.Evaluation, 1);
            _writer.Write(Encoding.ASCII.GetBytes("TAUD"));
            _writer.Write(Version);
            _writer.Write(actionSize);
        }

        /// <summary>Append one decision.</summary>
        /// <param name="exchange">How many exchanges there were before it.</param>
        /// <param name="agent">The agent that has been paid.</param>
        /// <param name="action">As it arrived, not clipped.</param>
        public void Add(int exchange, WireAgent agent, float[] action)
        {
            var (split, row) = _rows[agent.Prompt];
            _writer.Write(exchange);
            _writer.Write(agent.Id);
            _writer.Write(split);
            _writer.Write(row);
            _writer.Write((int)agent.LastEnding);
            _writer.Write(agent.LastReward);
            foreach (var value in action)
            {
                _writer.Write(value);
            }
        }

        /// <inheritdoc/>
        public void Dispose()
        {
            _writer.Dispose();
        }

        private void AddRows(TauSplit split, int number)
        {
            for (var row = 0; row < split.Count; row++)
            {
                _rows[split.Prompts[row]] = (number, row);
            }
        }

        /// <summary>Compares arrays by identity: the data set's rows are shared, never copied.</summary>
        private sealed class SameArray : IEqualityComparer<float[]>
        {
            public bool Equals(float[] left, float[] right)
            {
                return ReferenceEquals(left, right);
            }

            public int GetHashCode(float[] array)
            {
                return RuntimeHelpers.GetHashCode(array);
            }
        }
    }
}
