using System;
using System.Collections.Generic;
using System.Globalization;
using UnityEngine;

namespace Unity.MLAgents.Sensors
{
    /// <summary>Gives observations.</summary>
    public interface ISensor
    {
        /// <summary>Its name, which gives it its place on the wire.</summary>
        string GetName();

        /// <summary>A step begins.</summary>
        void Update();

        /// <summary>An episode has ended.</summary>
        void Reset();

        /// <summary>The observation.</summary>
        float[] Write();
    }

    /// <summary>
    /// Numbers. As in ML-Agents they are cleared before each CollectObservations, and when they are written, too few
    /// are filled up with zeros and too many are cut, each with a warning.
    /// </summary>
    public sealed class VectorSensor : ISensor
    {
        private readonly List<float> _values = new List<float>();
        private readonly string _name;
        private readonly int _size;

        /// <summary>A sensor; its usual name has its size in it.</summary>
        public VectorSensor(int observationSize, string name = null)
        {
            _size = observationSize;
            _name = name ?? FormattableString.Invariant($"VectorSensor_size{observationSize}");
        }

        /// <summary>Adds a number.</summary>
        public void AddObservation(float observation)
        {
            _values.Add(observation);
        }

        /// <summary>Adds three numbers.</summary>
        public void AddObservation(Vector3 observation)
        {
            _values.Add(observation.x);
            _values.Add(observation.y);
            _values.Add(observation.z);
        }

        /// <summary>Adds numbers.</summary>
        public void AddObservation(IList<float> observation)
        {
            _values.AddRange(observation);
        }

        /// <inheritdoc/>
        public string GetName()
        {
            return _name;
        }

        /// <inheritdoc/>
        public void Update()
        {
            _values.Clear();
        }

        /// <inheritdoc/>
        public void Reset()
        {
            _values.Clear();
        }

        /// <inheritdoc/>
        public float[] Write()
        {
            if (_values.Count != _size)
            {
                string kind = _values.Count > _size ? "More" : "Fewer";
                Debug.LogWarning(FormattableString.Invariant(
                    $"{kind} observations ({_values.Count}) made than vector observation size ({_size})."));
            }
            var written = new float[_size];
            _values.CopyTo(0, written, 0, Math.Min(_size, _values.Count));
            return written;
        }
    }

    /// <summary>Makes sensors when its agent is enabled.</summary>
    public abstract class SensorComponent : MonoBehaviour
    {
        /// <summary>New sensors.</summary>
        public abstract ISensor[] CreateSensors();
    }

    /// <summary>A sensor that scripts fill.</summary>
    public class VectorSensorComponent : SensorComponent
    {
        private VectorSensor _sensor;

        /// <summary>Its name.</summary>
        public string SensorName { get; set; } = "VectorSensor";

        /// <summary>How many numbers.</summary>
        public int ObservationSize { get; set; }

        /// <inheritdoc/>
        public override ISensor[] CreateSensors()
        {
            _sensor = new VectorSensor(ObservationSize, SensorName);
            return new ISensor[] { _sensor };
        }

        /// <summary>The sensor that was made last; null: its agent was never enabled.</summary>
        public VectorSensor GetSensor()
        {
            return _sensor;
        }
    }

    /// <summary>
    /// The order of sensors on the wire: by name, compared with the invariant culture (ML-Agents' SensorUtils). That
    /// culture goes by letters first and looks at upper and lower case only between equal words; the runtime of these
    /// tests has no cultures, so it is written out here for letters, digits and underscores.
    /// </summary>
    internal static class SensorNames
    {
        public static void Sort(List<ISensor> sensors)
        {
            sensors.Sort((left, right) => Compare(left.GetName(), right.GetName()));
        }

        private static int Compare(string left, string right)
        {
            int byLetters = string.CompareOrdinal(Folded(left), Folded(right));
            return byLetters != 0 ? byLetters : string.CompareOrdinal(right, left);
        }

        /// <summary>Underscores go before digits, digits before letters, as in ASCII for upper-case ones.</summary>
        private static string Folded(string name)
        {
            return name.ToUpper(CultureInfo.InvariantCulture).Replace('_', '\u0001');
        }
    }
}
