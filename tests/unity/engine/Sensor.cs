using System;

namespace Tau.Engine
{
    /// <summary>The bytes of one <c>ObservationProto</c> around its floats: a list of numbers, row-major.</summary>
    internal sealed class Sensor
    {
        private readonly byte[] _before;
        private readonly byte[] _after;
        private readonly int _size;

        /// <summary>A sensor of <paramref name="size"/> floats.</summary>
        public Sensor(string name, int size)
        {
            Name = name;
            _size = size;
            var writer = new WireWriter();
            writer.WriteHead(1, WireWriter.WidthOf((uint)size)); // shape
            writer.WriteVarint((uint)size);
            writer.WriteHead(4, WireWriter.SizeOfField(1, 4 * size)); // float_data
            writer.WriteHead(1, 4 * size);
            _before = writer.Written.ToArray();
            writer.Clear();
            writer.WriteHead(6, 1); // dimension_properties: nothing may be assumed of the one dimension
            writer.WriteVarint(1);
            writer.WriteText(8, name);
            _after = writer.Written.ToArray();
            Length = _before.Length + 4 * size + _after.Length;
        }

        /// <summary>The sensor's name, by which Unity sorts.</summary>
        public string Name { get; }

        /// <summary>Bytes of the whole message.</summary>
        public int Length { get; }

        /// <summary>Write the message with these values.</summary>
        public void Write(WireWriter writer, float[] values)
        {
            if (values.Length != _size)
            {
                throw new ArgumentException($"sensor {Name} has {_size} values, not {values.Length}", nameof(values));
            }

            writer.WriteRaw(_before);
            writer.WriteFloats(values);
            writer.WriteRaw(_after);
        }
    }
}
