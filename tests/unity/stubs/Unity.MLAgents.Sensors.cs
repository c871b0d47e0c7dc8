// Stand-ins for ML-Agents: observations.
using System.Collections.Generic;
using UnityEngine;

namespace Unity.MLAgents.Sensors
{
    public enum ObservationType
    {
        Default = 0,
        GoalSignal = 1,
    }

    public enum SensorCompressionType
    {
        None,
        PNG,
    }

    public interface ISensor
    {
        byte[] GetCompressedObservation();

        void Update();

        void Reset();

        string GetName();
    }

    public class VectorSensor : ISensor
    {
        public VectorSensor(
            int observationSize, string name = null, ObservationType observationType = ObservationType.Default) { }

        public void AddObservation(float observation) { }

        public void AddObservation(int observation) { }

        public void AddObservation(Vector3 observation) { }

        public void AddObservation(Vector2 observation) { }

        public void AddObservation(IList<float> observation) { }

        public void AddObservation(Quaternion observation) { }

        public void AddObservation(bool observation) { }

        public void AddOneHotObservation(int observation, int range) { }

        public virtual byte[] GetCompressedObservation() => default;

        public string GetName() => default;

        public void Reset() { }

        public void Update() { }
    }

    public abstract class SensorComponent : MonoBehaviour
    {
        public abstract ISensor[] CreateSensors();
    }

    [AddComponentMenu("ML Agents/Vector Sensor", 50)]
    public class VectorSensorComponent : SensorComponent
    {
        public string SensorName { get; set; }

        public int ObservationSize { get; set; }

        public ObservationType ObservationType { get; set; }

        public int ObservationStacks { get; set; }

        public override ISensor[] CreateSensors() => default;

        public VectorSensor GetSensor() => default;
    }

    [AddComponentMenu("ML Agents/Buffer Sensor", 50)]
    public class BufferSensorComponent : SensorComponent
    {
        public string SensorName { get; set; }

        public int ObservableSize { get; set; }

        public int MaxNumObservables { get; set; }

        public void AppendObservation(float[] obs) { }

        public override ISensor[] CreateSensors() => default;
    }

    [AddComponentMenu("ML Agents/Camera Sensor", 50)]
    public class CameraSensorComponent : SensorComponent
    {
        public Camera Camera { get; set; }

        public string SensorName { get; set; }

        public int Width { get; set; }

        public int Height { get; set; }

        public bool Grayscale { get; set; }

        public int ObservationStacks { get; set; }

        public override ISensor[] CreateSensors() => default;
    }

    public abstract class RayPerceptionSensorComponentBase : SensorComponent
    {
        public string SensorName { get; set; }

        public List<string> DetectableTags { get; set; }

        public int RaysPerDirection { get; set; }

        public float MaxRayDegrees { get; set; }

        public float SphereCastRadius { get; set; }

        public float RayLength { get; set; }

        public LayerMask RayLayerMask { get; set; }

        public int ObservationStacks { get; set; }

        public override ISensor[] CreateSensors() => default;
    }

    [AddComponentMenu("ML Agents/Ray Perception Sensor 3D", 50)]
    public class RayPerceptionSensorComponent3D : RayPerceptionSensorComponentBase
    {
        public float StartVerticalOffset { get; set; }

        public float EndVerticalOffset { get; set; }
    }
}
